"""References to resources, new names, and the paths that need quoting."""

from __future__ import annotations

from urllib.parse import quote

from d4explain.client.errors import InvalidNameError
from d4explain.client.resources import Dataset, Gnn
from d4explain.resource_names import name_fault

GnnReference = Gnn | str  # a GNN, its id, `name@3`, `name@alias` or name
DatasetReference = Dataset | str  # a reference set, its id, `name@2` or name


def reference_of(resource: Gnn | Dataset | str) -> str:
    return resource if isinstance(resource, str) else resource.id


def checked_name(name: str) -> str:
    """The name of a new GNN or reference set; a wrong one is refused before anything is sent."""
    fault = name_fault(name)
    if fault is not None:
        raise InvalidNameError(name, fault)
    return name


def gnn_path(gnn: GnnReference) -> str:
    return f"/v1/gnns/{quote(reference_of(gnn), safe='@')}"


def dataset_path(dataset: DatasetReference) -> str:
    return f"/v1/datasets/{quote(reference_of(dataset), safe='@')}"


def alias_path(name: str, alias: str) -> str:
    return f"{gnn_path(name)}/aliases/{quote(alias, safe='')}"
