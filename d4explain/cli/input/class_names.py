"""Classes on the command line: a name or a number."""

from __future__ import annotations

from d4explain.client.client import Client
from d4explain.client.errors import RefusedError
from d4explain.client.resources import Gnn

NOT_FOUND = 404


def class_reference(text: str, names: list[str] | None) -> int | str:
    """The class with this name, or else with this number.

    A name comes first, because tables show names: if the classes are called 1 and 2, then `--class
    1` is the class that a table shows as 1.
    """
    return int(text) if text.isdecimal() and text not in (names or ()) else text


def class_names_of(gnn: Gnn) -> list[str] | None:
    names: list[str] | None = gnn.spec.get("class_names")
    return names


def find_class_names(client: Client, gnn: str) -> list[str] | None:
    """None if the GNN has no names, or if it was deleted after it had been explained."""
    try:
        return class_names_of(client.gnn(gnn))
    except RefusedError as error:
        if error.status == NOT_FOUND:
            return None
        raise
