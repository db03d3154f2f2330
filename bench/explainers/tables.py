"""The paper's tables of explainers from the saved rows: our figure, and the paper's in brackets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.explainers.rows import METHODS, PAPER_METHODS
from bench.report.markdown import table
from bench.report.paper_figures import (
    PAPER_CF_ACC,
    PAPER_FIDELITY,
    PAPER_MMD,
    PAPER_RUN_TIME,
)
from bench.report.results_store import Results, Row

# Two-sided 95 % quantiles of Student's t by number of seeds.
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
_NEAR_FIRST = 0.01
_ENOUGH = 0.5  # of the best AUC; below it, an MMD says little
_NAMES = {
    "random": "Random",
    "gnnexplainer": "GNNExplainer",
    "saliency": "SAExplainer (`saliency`)",
    "gradcam": "GradCam",
    "integrated-gradients": "IGExplainer (`integrated-gradients`)",
    "pgexplainer": "PGExplainer",
    "pgm-explainer": "PGMExplainer",
    "cxplain": "CXPlain",
    "cf-gnnexplainer": "CF-GNNExplainer",
    "d4": "**D4Explainer (ours, `minimal`)**",
    "search": "`search`",
    "greedy": "`greedy`",
}
Figures = Sequence[Row]
Cell = Callable[[str, str, Figures], str]  # data set, method, its rows of all seeds


_SANITY_COLUMNS = {
    "dataset": "data set",
    "method": "method",
    "nodes": "nodes",
    "auc": "AUC, all edges",
    "auc_per_node": "AUC, mean of the nodes",
    "removed_in_motif": "removed in the motif",
    "motif_share": "chance",
    "edits": "edits",
    "flipped": "flipped",
    "published": "published",
    "source": "by",
}


def explainer_tables(results: Results) -> list[str]:
    """The section of docs/benchmarks.md."""
    rows = results.rows("explainers")
    return [
        "\nTable 1:\n",
        table_1(rows),
        "\nTable 2, and what the paper lacks:\n",
        table_2(rows),
        "\nRun time:\n",
        run_time(rows),
        "\nOurs among the paper's methods:\n\n",
        "".join(f"- {sentence}\n" for sentence in verdicts(rows)),
    ]


def sanity_table(rows: Figures) -> str:
    return table([{**row, "method": f"`{row['method']}`"} for row in rows], _SANITY_COLUMNS)


def table_1(rows: Figures) -> str:
    """CF-ACC AUC and fidelity AUC."""
    columns: dict[str, Cell] = {
        "CF-ACC": lambda name, method, own: _beside_paper(
            own, "auc_strict", PAPER_CF_ACC.get((name, method))
        ),
        "one-edit": lambda name, method, own: _mean(own, "auc_one_edit"),
        "FID": lambda name, method, own: _beside_paper(
            own, "fidelity_any_auc", PAPER_FIDELITY.get((name, method))
        ),
    }
    return _by_method(rows, columns)


def table_2(rows: Figures) -> str:
    """MMD sum against held-out graphs, and what the paper lacks: transfer, C2ST, CPU time."""
    columns: dict[str, Cell] = {
        "MMD": lambda name, method, own: _beside_paper(
            own, "mmd_heldout", PAPER_MMD.get((name, method))
        ),
        "flips": lambda name, method, own: _mean(own, "flip_rate"),
        "NA": lambda name, method, own: _mean(own, "na"),
        "C2ST": lambda name, method, own: _mean(own, "c2st"),
        "CPU s": lambda name, method, own: _mean(own, "cpu_seconds"),
    }
    return _by_method(rows, columns)


def run_time(rows: Figures) -> str:
    """CPU seconds per instance, mean ± standard deviation over the instances; and the training."""
    lines = []
    for name in _datasets(rows):
        for method in METHODS:
            own = _of(rows, name, method)
            if own:
                printed = PAPER_RUN_TIME.get((name, method))
                lines.append(
                    {
                        "dataset": name,
                        "method": _NAMES[method],
                        "seconds": f"{_average(own, 'cpu_seconds'):.3f} ± "
                        f"{_average(own, 'cpu_seconds_std'):.3f}",
                        "paper": None if printed is None else f"{printed[0]} ± {printed[1]}",
                        "training": _average(own, "train_seconds"),
                        "evaluations": _average(own, "gnn_evaluations"),
                        "gradients": _average(own, "gnn_gradients"),
                    }
                )
    columns = {
        "dataset": "data set",
        "method": "method",
        "seconds": "CPU s per instance",
        "paper": "paper, s",
        "training": "training, CPU s",
        "evaluations": "GNN evaluations",
        "gradients": "GNN gradients",
    }
    return table(lines, columns) if lines else "\nNot measured.\n"


def verdicts(rows: Figures) -> list[str]:
    """Whether ours is first among the paper's methods in CF-ACC and lowest in MMD, by data set."""
    sentences = []
    for name in _datasets(rows):
        auc = {
            method: _average(own, "auc_strict")
            for method in PAPER_METHODS
            if (own := _of(rows, name, method))
        }
        if "d4" not in auc or len(auc) < 2:
            continue
        missing = [method for method in PAPER_METHODS if method not in auc]
        seeds = len(_of(rows, name, "d4"))
        best = max((method for method in auc if method != "d4"), key=auc.__getitem__)
        reached = auc["d4"] >= auc[best] - _NEAR_FIRST
        sentence = (
            f"{name} ({seeds} seed{'s' if seeds > 1 else ''}): CF-ACC AUC {auc['d4']:.3f}, "
            f"the best of the others {auc[best]:.3f} (`{best}`): {_word(reached)}."
        )
        compared = {
            method: _average(_of(rows, name, method), "mmd_heldout")
            for method in auc
            if auc[method] >= _ENOUGH * max(auc.values())
            and all(row["mmd_heldout"] is not None for row in _of(rows, name, method))
        }
        others = {method: mmd for method, mmd in compared.items() if method != "d4"}
        if "d4" not in compared:
            sentence += " No MMD."
        elif not others:
            sentence += (
                f" MMD sum {compared['d4']:.3f}: no other method of the paper has half of the best "
                "AUC."
            )
        else:
            lowest = min(others, key=others.__getitem__)
            sentence += (
                f" MMD sum {compared['d4']:.3f}, the lowest of the others with at least half of "
                f"the best AUC {others[lowest]:.3f} (`{lowest}`): "
                f"{_word(compared['d4'] <= others[lowest])}."
            )
        if missing:
            sentence += f" Not measured: {', '.join(f'`{method}`' for method in missing)}."
        sentences.append(sentence)
    return sentences


def _word(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def _by_method(rows: Figures, columns: Mapping[str, Cell]) -> str:
    """One line per method, one group of columns per data set."""
    names = _datasets(rows)
    if not names:
        return "\nNot measured.\n"
    titles = {"method": "method"}
    titles |= {f"{name} {title}": f"{name} {title}" for name in names for title in columns}
    lines = []
    for method in METHODS:
        line: dict[str, object] = {"method": _NAMES[method]}
        for name in names:
            own = _of(rows, name, method)
            for title, cell in columns.items():
                line[f"{name} {title}"] = cell(name, method, own) if own else None
        if any(value is not None for key, value in line.items() if key != "method"):
            lines.append(line)
    return table(lines, titles)


def _datasets(rows: Figures) -> list[str]:
    return list(dict.fromkeys(row["dataset"] for row in rows))


def _of(rows: Figures, dataset: str, method: str) -> Figures:
    return [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]


def _values(rows: Figures, key: str) -> list[float]:
    return [row[key] for row in rows if row[key] is not None]


def _average(rows: Figures, key: str) -> float:
    values = _values(rows, key)
    return sum(values) / len(values)


def _mean(rows: Figures, key: str) -> str:
    """The mean over the seeds, with the half width of its 95 % interval if there are several."""
    values = _values(rows, key)
    if not values:
        return "-"
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.3f}"
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return f"{mean:.3f} ± {_T[min(len(values), 10)] * (variance / len(values)) ** 0.5:.3f}"


def _beside_paper(rows: Figures, key: str, printed: float | None) -> str:
    return _mean(rows, key) + ("" if printed is None else f" ({printed:.3f})")
