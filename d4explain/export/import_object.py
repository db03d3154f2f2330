"""Finds a person's own object by name: `package.module:object` or `path/to/file.py:object`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from d4explain.errors import CommandError

OURS = ("service", "worker", "models", "store", "d4explain", "bench")


def load_object(name: str) -> object:
    """The object itself; a function or class without arguments is called for it."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise CommandError(f"{name!r} is not MODULE:OBJECT", hint="for example my_gnns:model")
    found: object = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{place} has no {attribute!r}")
        found = getattr(found, part)
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    # A name of its own, so that a person's models.py is not taken for our package.
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def _from_module(name: str) -> ModuleType:
    here = Path.cwd()
    top = name.partition(".")[0]
    if top in OURS and ((here / f"{top}.py").exists() or (here / top).is_dir()):
        raise CommandError(
            f"{top} is also the name of a package of d4explain",
            hint=f"name the file instead: {name.replace('.', '/')}.py:OBJECT",
        )
    sys.path.append(str(here))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise CommandError(f"there is no module {error.name!r}") from error
    except Exception as error:
        raise CommandError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
