"""Writes tutorial.ipynb: runs the blocks of tutorial.md and keeps their outputs.

Start the service and run this in a folder for the data: `python docs/notebook.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).parent / "tutorial.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
SECONDS = 900  # of one cell; the last one trains networks
_MARK = "<!-- trains networks -->\n"
_BLOCK = re.compile(r"```python\n(.*?)```\n?", re.DOTALL)


def notebook_of(page: str) -> nbformat.NotebookNode:
    """Texts and Python blocks of a page as cells, without outputs."""
    cells = []
    for number, part in enumerate(_BLOCK.split(page.replace(_MARK, ""))):
        new_cell = nbformat.v4.new_code_cell if number % 2 else nbformat.v4.new_markdown_cell
        if part.strip():
            cells.append(new_cell(part.strip(), id=f"cell-{number}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells and keep their outputs, without times and messages of libraries."""
    client = NotebookClient(
        notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )  # fmt: skip
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [item for item in cell.outputs if item.get("name") != "stderr"]


if __name__ == "__main__":
    executed = notebook_of(PAGE.read_text(encoding="utf-8"))
    run(executed, Path.cwd())
    nbformat.write(executed, NOTEBOOK)
