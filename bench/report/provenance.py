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
# Code that decides answers. Other code may change without recomputing cached answers.
_ANSWER_CODE = (
    "models/**/*.py",
    "d4explain/gnn/**/*.py",
    "bench/denoiser_training.py",
    "bench/counterfactuals/methods.py",
    "bench/counterfactuals/instances.py",
    "bench/counterfactuals/runs.py",
)
_METHOD_PACKAGES = ("models.", "d4explain.gnn.")
# A commit is dirty if a file under these paths differs from it.
_MEASURED_PATHS = (
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


def code_digest(patterns: Sequence[str] = _ANSWER_CODE) -> str:
    """Digest of the files that match the patterns, for cache keys."""
    content = hashlib.sha256()
    for pattern in patterns:
        for file in sorted(_ROOT.glob(pattern)):
            content.update(file.read_bytes())
    return content.hexdigest()


def imported_by(file: str) -> list[str]:
    """The file and all modules of the method that it imports, directly or indirectly."""
    visited: list[str] = []
    queue = [file]
    while queue:
        path = queue.pop()
        if path in visited:
            continue
        visited.append(path)
        imports = [
            node.module or ""
            for node in ast.walk(ast.parse((_ROOT / path).read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        modules = [module for module in imports if module.startswith(_METHOD_PACKAGES)]
        queue += [f"{module.replace('.', '/')}.py" for module in modules]
    return sorted(visited)


def _commit() -> str | None:
    """The commit, with "-dirty" if measured code differs from it; None outside a repository."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return None
    return f"{head}-dirty" if _git("status", "--porcelain", *_MEASURED_PATHS) else head


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
