"""The documentation matches the repository: paths, links and figures."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
    key=lambda page: page.relative_to(ROOT),
)
NAMING_PAGES = [ROOT / "docs/tour.md", ROOT / "docs/architecture.md", ROOT / "CONTRIBUTING.md"]
PACKAGES = ("service", "store", "worker", "models", "d4explain", "bench", "tests", "docs", "docker")

CODE_SPAN = re.compile(r"`([^`\n]+)`")
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r'<img[^>]*\ssrc="([^"]+)"')
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def named_paths(text: str) -> list[str]:
    """Paths of the repository among the code spans, such as `store/jobs/claims.py`."""
    spans = CODE_SPAN.findall(CODE_BLOCK.sub("", text))
    return [
        span
        for span in spans
        if " " not in span and "/" in span and span.split("/")[0] in PACKAGES and "{" not in span
    ]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = CODE_BLOCK.sub("", page.read_text())
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


@pytest.mark.parametrize("page", NAMING_PAGES, ids=page_name)
def test_every_named_file_exists(page: Path) -> None:
    paths = named_paths(page.read_text())
    assert len(paths) >= 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_resolves(page: Path) -> None:
    text = CODE_BLOCK.sub("", page.read_text())
    broken = []
    for link in [*LINK.findall(text), *IMAGE.findall(text)]:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_package_says_what_is_in_it() -> None:
    code = [ROOT / name for name in PACKAGES if name not in ("tests", "docs", "docker")]
    packages = [file for folder in code for file in folder.rglob("__init__.py")]
    assert len(packages) > 50
    unsaid = [file for file in packages if not ast.get_docstring(ast.parse(file.read_text()))]
    assert [str(file.relative_to(ROOT)) for file in unsaid] == []


def test_the_tour_ends_with_ten_questions_that_name_their_files() -> None:
    text = (ROOT / "docs/tour.md").read_text()
    _, questions = text.split("\n## Ten questions\n")
    rows = re.findall(r"^\| \d+ \| (.+\?) \| (.+) \|$", questions, re.MULTILINE)
    assert len(rows) == 10
    for question, answer in rows:
        assert named_paths(answer), question


def test_the_readme_fits_and_starts_with_picture_and_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    first_screen = "\n".join(lines[:25])
    for part in ("docs/images/counterfactual.svg", "make demo", "make test"):
        assert part in first_screen


# The results in the README come from the stored measurements.

DATASETS = {
    "BA-3Motif": "ba3motif",
    "BA-3Motif, role features": "ba3motif_roles",
    "BA-Shapes (nodes)": "ba_shapes",
    "BBBP": "bbbp",
    "Cornell (nodes)": "cornell",
    "Mutagenicity": "mutagenicity",
    "NCI1": "nci1",
    "Tree-Cycle (nodes)": "tree_cycle",
    "Tree-Grids (nodes)": "tree_grids",
}


def measured(dataset: str) -> list[str]:
    """The cells that the README shows for a data set."""
    file = ROOT / "bench/results" / f"counterfactual-{dataset}.json"
    row_of = {row["method"]: row for row in json.loads(file.read_text())}
    d4, greedy, no_denoiser = row_of["d4"], row_of["greedy"], row_of["d4_no_denoiser"]
    assert (d4["seed"], d4["date"]) == (1, "2026-11-17")
    return [
        str(d4["n"]),
        f"{d4['auc_strict']:.3f}",
        f"{greedy['auc_strict']:.3f}",
        f"{d4['auc_possible']:.3f}",
        f"{mmd_excess(d4) / mmd_excess(greedy):.2f}",
        f"{d4['gnn_evaluations'] / no_denoiser['gnn_evaluations']:.2f}",
    ]


def mmd_excess(row: dict[str, Any]) -> float:
    return float(row["mmd_heldout"] - row["mmd_floor"])


def test_the_results_in_the_readme_are_the_measured_ones() -> None:
    text = (ROOT / "README.md").read_text()
    table = text.split("<!-- results -->\n")[1].split("\n\n")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    assert {row[0] for row in rows} == DATASETS.keys()
    for name, *cells in rows:
        assert cells[:6] == measured(DATASETS[name]), name


def test_the_speed_of_the_pages_is_the_measured_one() -> None:
    [row] = json.loads((ROOT / "bench/results/speed-pages.json").read_text())
    assert not row["short"]
    section = (ROOT / "docs/dashboard.md").read_text().split("## Speed\n")[1].split("\n## ")[0]
    table = section.split("<!-- pages -->\n")[1].split("\n\n")[0]
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    assert shown == [
        [name, f"{server:.0f}", f"{painted:.0f}", f"{worst:.0f}"]
        for name, server, _, painted, worst in row["tables"][0]["rows"]
    ]
    for figure in (
        f"`{row['command']}`",
        row["date"],
        f"drawn after {row['large_drawing_ms']:.0f} ms",
        f"{row['what_if_p50_ms']:.1f} ms (median)",
        f"{row['what_if_p95_ms']:.1f} ms (95th",
    ):
        assert figure in section, figure


def test_the_threat_model_names_tests_that_exist_for_every_risk() -> None:
    page = (ROOT / "docs/threat-model.md").read_text()
    rows = re.findall(r"^\| (API\d+) .*$", page, re.MULTILINE)
    assert rows == [f"API{number}" for number in range(1, 11)]
    for row in re.findall(r"^\| API\d+ .*$", page, re.MULTILINE):
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            tree = ast.parse((ROOT / file).read_text())
            functions = ast.FunctionDef | ast.AsyncFunctionDef
            defined = {node.name for node in tree.body if isinstance(node, functions)}
            assert name in defined, f"{file}::{name}"
