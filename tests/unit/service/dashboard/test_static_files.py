"""The built files of the dashboard are those of the sources, small, and load nothing foreign."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import service.dashboard

FOLDER = Path(service.dashboard.__file__).parent
STATIC = FOLDER / "static"
MAX_BYTES = 600_000


def test_somebody_built_the_sources_as_they_are() -> None:
    """`make dashboard` writes the digest; after a change of the sources it differs."""
    digest = hashlib.sha256()
    for path in sorted((FOLDER / "source").rglob("*.*"), key=lambda path: path.as_posix()):
        digest.update(path.relative_to(FOLDER).as_posix().encode() + path.read_bytes())
    digest.update((FOLDER / "package.json").read_bytes())
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest()


def test_scripts_and_styles_stay_below_600_kilobytes() -> None:
    files = [*STATIC.glob("*.js"), *STATIC.glob("*.css")]
    assert {path.name for path in files} == {"app.js", "style.css"}
    assert sum(path.stat().st_size for path in files) < MAX_BYTES


def test_the_licences_of_what_is_bundled_are_beside_it() -> None:
    dependencies = re.search(
        r'"dependencies": \{(.*?)\}', (FOLDER / "package.json").read_text(), re.S
    )
    assert dependencies is not None
    licences = (STATIC / "LICENSES.txt").read_text()
    for name, version in re.findall(r'"(\w+)": "([\d.]+)"', dependencies.group(1)):
        assert f"{name.capitalize()} {version}" in licences


def test_pages_load_nothing_from_other_sites(api) -> None:
    forms = ("/ask", "/evaluate", "/compare")
    resources = ("/gnns/motifs", "/explanations/exp_1", "/jobs/job_1", "/comparisons/cmp_1")
    for path in ("/", "/evaluations", "/evaluations/evl_1", *forms, *resources):
        page = api.client.get(path)
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "://" not in page.text
        assets = re.findall(r'(?:src|href)="(/dashboard/[^"]+)"', page.text)
        assert len(assets) == 3
        for asset in assets:
            assert api.client.get(asset).status_code == 200


def test_other_files_of_the_package_are_not_served(api) -> None:
    for name in ("package.json", "index.html", "sources.sha256", "..%2fpackage.json"):
        assert api.client.get(f"/dashboard/{name}").status_code == 404
