"""Read molecules from a csv with a SMILES column; atoms get PyG's nine features."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch

from bench.data.splits import DataError, DataFormatError, DataMissingError, Part
from d4explain.gnn.graphs import Graph

LABEL_COLUMNS = ("label", "class", "target", "y", "p_np")  # p_np is MoleculeNet's name in BBBP


def read_smiles(path: Path) -> Part:
    """One graph per row; rows without label or valid SMILES are skipped and counted."""
    rows = _rows(path)
    graphs, labels = [], []
    for smiles, label in rows:
        graph = _molecule(smiles) if label else None
        if graph is not None:
            graphs.append(graph)
            labels.append(label)
    if not graphs:
        raise DataFormatError(f"{path}: none of the {len(rows)} rows is a labelled molecule")
    _, classes = np.unique(np.array(labels), return_inverse=True)
    return Part(graphs, torch.from_numpy(classes), skipped=len(rows) - len(graphs))


def _rows(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise DataMissingError(f"{path} does not exist; set D4_DATA to the folder with the data")
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        column_of = {name.strip().lower(): name for name in reader.fieldnames or ()}
        label = next((column_of[name] for name in LABEL_COLUMNS if name in column_of), None)
        if "smiles" not in column_of or label is None:
            raise DataFormatError(
                f"{path} needs a column 'smiles' and one of {', '.join(LABEL_COLUMNS)}; "
                f"its columns are {', '.join(column_of) or 'none'}"
            )
        smiles = column_of["smiles"]
        return [((row[smiles] or "").strip(), (row[label] or "").strip()) for row in reader]


def _molecule(smiles: str) -> Graph | None:
    try:
        from rdkit import Chem, rdBase  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise DataError("molecules need RDKit: pip install 'd4explain[molecules]'") from error
    from torch_geometric.utils import from_rdmol  # noqa: PLC0415  # seconds to import

    with rdBase.BlockLogs():  # parse errors are counted instead of logged
        molecule = Chem.MolFromSmiles(smiles) if smiles else None
    if molecule is None or molecule.GetNumAtoms() == 0:
        return None
    try:
        data = from_rdmol(molecule)
    except ValueError:  # an atom outside PyG's vocabulary
        return None
    source, target = data.edge_index
    return Graph(data.x.float(), data.edge_index[:, source < target].contiguous())
