from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from store.artifacts import large_graphs
from store.artifacts.artifact_store import ArtifactStore
from store.errors import ArtifactCorrupt, ArtifactMissing


def test_a_large_graph_is_a_safetensors_file_that_can_be_mapped(tmp_path: Path) -> None:
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    graph = large_graphs.rows_of(np.ones((5, 2), np.float32), *edges)
    artifacts = ArtifactStore(str(tmp_path / "artifacts"))
    digest = artifacts.of("default").put_large(lambda file: large_graphs.write(graph, file))
    loaded = load(artifacts.of("default").get(digest))
    with artifacts.of("default").open_large(digest) as file:
        mapped = large_graphs.mapped(file)
    for name in ("x", "starts", "neighbours"):
        assert np.array_equal(loaded[name], getattr(graph, name))
        assert np.array_equal(getattr(mapped, name), getattr(graph, name))
        assert isinstance(getattr(mapped, name).base, np.memmap)
    assert [listed.digest for listed in artifacts.listed()] == [digest]


def test_remote_artifacts_are_downloaded_and_verified() -> None:
    artifacts = ArtifactStore("memory://large-graphs")
    digest = artifacts.of("default").put_large(lambda file: file.write(b"bytes") and None)
    with artifacts.of("default").open_large(digest) as file:
        assert file.read() == b"bytes"
    with pytest.raises(ArtifactMissing):
        artifacts.of("default").open_large("0" * 64)
    files = artifacts.of("default")
    files._files.pipe_file(files._path(digest), b"other")
    with pytest.raises(ArtifactCorrupt):
        artifacts.of("default").open_large(digest)
