"""Provenance of a result: code, versions, machine, date."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("torch", "torch-geometric", "numpy", "networkx")
# Code that decides answers. Counting and printing may change without recomputing them.
_DECIDING = (
    "models/**/*.py",
    "d4explain/gnn/**/*.py",
    "bench/counterfactuals/methods.py",
    "bench/counterfactuals/instances.py",
    "bench/counterfactuals/runs.py",
)

_METHOD = ("models.", "d4explain.gnn.")

_MEASURED = (
    *("models", "store", "service", "worker", "d4explain", "bench"),
    ":!bench/results",
)


def provenance(seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
        "commit": _commit(),
        "machine": (
            f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
            f"{torch.get_num_threads()} torch thread"
        ),
        "date": time.strftime("%Y-%m-%d"),
    }


def code_digest(deciding: Sequence[str] = _DECIDING) -> str:
    content = hashlib.sha256()
    for pattern in deciding:
        for file in sorted(_ROOT.glob(pattern)):
            content.update(file.read_bytes())
    return content.hexdigest()


def imported_by(file: str) -> list[str]:
    """The file and all modules of the method that it imports, directly or indirectly."""
    found: list[str] = []
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.append(path)
        imports = [
            node.module or ""
            for node in ast.walk(ast.parse((_ROOT / path).read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        ours = [module for module in imports if module.startswith(_METHOD)]
        waiting += [f"{module.replace('.', '/')}.py" for module in ours]
    return sorted(found)


def _commit() -> str | None:
    """The commit, with "-dirty" if measured code differs from it; None outside a repository."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return None
    return f"{head}-dirty" if _git("status", "--porcelain", *_MEASURED) else head


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
