"""Models and sample graphs of the user's files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from d4explain.cli.input.user_objects import load_model_and_graphs
from d4explain.errors import CommandError

TRAIN = """
import sys
import torch
from torch import nn
from torch_geometric.data import Batch, Data

net = nn.Linear(2, 2)
data = Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0], [1]]))
batch = Batch.from_data_list([data, data])
arguments = sys.argv

def graphs():
    return [data]

def broken():
    raise KeyError("lost")
"""


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "train.py"
    file.write_text(TRAIN)
    return file


def test_one_graph_of_pyg_is_no_function(train: Path) -> None:
    """PyG's graphs can be called, which gives an iterator over their fields."""
    for name in ("data", "batch"):
        _, graphs = load_model_and_graphs(f"{train}:net", f"{train}:{name}")
        assert hasattr(graphs, "edge_index")
    _, graphs = load_model_and_graphs(f"{train}:net", f"{train}:graphs")
    assert len(graphs) == 1


def test_the_file_does_not_read_the_arguments_of_the_command(
    train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["d4explain", "register", "--json"])
    _, arguments = load_model_and_graphs(f"{train}:net", f"{train}:arguments")
    assert arguments == [str(train)]
    assert sys.argv == ["d4explain", "register", "--json"]


def test_errors_of_the_file_are_one_line(train: Path) -> None:
    with pytest.raises(CommandError, match=r"broken\(\) failed: KeyError: 'lost'"):
        load_model_and_graphs(f"{train}:net", f"{train}:broken")
    train.write_text("raise SystemExit(0)")
    with pytest.raises(CommandError, match="cannot be run: SystemExit: 0"):
        load_model_and_graphs(f"{train}:net", f"{train}:graphs")
