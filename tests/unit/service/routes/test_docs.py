"""`/docs` works offline: the page and its assets come from this service alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ASSETS = Path(__file__).parents[4] / "service" / "routes" / "swagger_ui"


def test_the_page_loads_nothing_from_other_sites(api: Any) -> None:
    page = api.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3
    for path in loaded:
        asset = api.client.get(path)
        assert asset.status_code == 200, path
        assert asset.content == (ASSETS / Path(path).name).read_bytes()
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_other_files_are_not_served(api: Any) -> None:
    for name in ("LICENSE", "README.md", "..%2Fdocs.py", "nothing.js"):
        assert api.client.get(f"/docs/{name}").status_code == 404


def test_the_bundled_files_have_their_licence_and_version() -> None:
    assert "Apache License" in (ASSETS / "LICENSE").read_text()
    makefile = (ASSETS.parents[2] / "Makefile").read_text()
    version = re.search(r"SWAGGER_UI := (\S+)", makefile)
    assert version is not None
    assert f"swagger-ui-dist` {version[1]} " in (ASSETS / "README.md").read_text()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_the_operations_and_examples(served: Any, tmp_path: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    address = f"{str(served.client.base_url).rstrip('/')}/docs#/explanations/create_explanation"
    shown = subprocess.run(
        [*command, f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert shown.count('class="opblock-summary-path"') > 20
    assert "without a denoiser" in shown  # the name of an example of the opened operation
    assert "max_ratio" in shown
