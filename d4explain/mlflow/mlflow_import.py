"""Imports MLflow, which only the extra `mlflow` installs."""

from __future__ import annotations

from typing import Any

from d4explain.errors import CommandError


def mlflow_module() -> Any:
    try:
        import mlflow  # noqa: PLC0415 - takes seconds, and the base install lacks it
    except ModuleNotFoundError as error:
        raise CommandError(
            f"this needs the package {error.name!r}", hint="pip install 'd4explain[mlflow]'"
        ) from error
    return mlflow
