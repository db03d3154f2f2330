"""Imports a user's object by name: `package.module:object` or `path/to/file.py:object`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from d4explain.errors import CommandError


def import_object(name: str) -> object:
    (imported,) = import_objects(name)
    return imported


def import_objects(*names: str) -> list[object]:
    """Several objects; a file that has more than one of them, and may train a model, runs once."""
    parts = [_parts(name) for name in names]
    imported = {
        name: _import_file(Path(name)) if name.endswith(".py") else _import_module(name)
        for name in dict.fromkeys(module_name for module_name, _ in parts)
    }
    return [_attribute(imported[name], name, attributes) for name, attributes in parts]


def _parts(name: str) -> tuple[str, str]:
    module_name, colon, attributes = name.rpartition(":")
    if not colon or not module_name or not attributes:
        raise CommandError(f"{name!r} is not MODULE:OBJECT", hint="for example my_gnns:model")
    return module_name, attributes


def _attribute(module: ModuleType, module_name: str, attributes: str) -> object:
    target: object = module
    for attribute in attributes.split("."):
        if not hasattr(target, attribute):
            raise CommandError(f"{module_name} has no {attributes!r}")
        target = getattr(target, attribute)
    return target


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"no such file: {path}")
    # The prefix keeps a file such as random.py from replacing a module of the same name.
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _prepend_to_path(path.parent)
    arguments, sys.argv = sys.argv, [str(path)]  # those of the command are not for the file
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CommandError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    finally:
        sys.argv = arguments
    return module


def _import_module(name: str) -> ModuleType:
    _prepend_to_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise CommandError(f"no module named {error.name!r}") from error
    except Exception as error:
        raise CommandError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _prepend_to_path(folder: Path) -> None:
    """Put the user's folder first: an editable install also has a package `models`."""
    sys.path.insert(0, str(folder.resolve()))
    importlib.invalidate_caches()
