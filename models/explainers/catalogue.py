"""The explainers by name, what each needs of the GNN, and the training of those that learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.errors import NoGradientsError
from models.explainers.algorithms import (
    cf_gnn_explainer,
    cxplain,
    gnn_explainer,
    integrated_gradients,
    pg_explainer,
    pgm_explainer,
)
from models.explainers.algorithms.cf_gnn_explainer import CfGnnExplainer
from models.explainers.algorithms.gnn_explainer import GnnExplainer
from models.explainers.algorithms.grad_cam import GradCam
from models.explainers.algorithms.greedy import Greedy
from models.explainers.algorithms.integrated_gradients import IntegratedGradients
from models.explainers.algorithms.pgm_explainer import PgmExplainer
from models.explainers.algorithms.random_edits import RandomEdits
from models.explainers.algorithms.saliency import Saliency
from models.explainers.interface import Explainer

ExplainerName = Literal[
    "greedy",
    "random",
    "gnnexplainer",
    "saliency",
    "gradcam",
    "integrated-gradients",
    "pgexplainer",
    "pgm-explainer",
    "cxplain",
    "cf-gnnexplainer",
]


@dataclass(frozen=True)
class ExplainerTraits:
    scores_edges: bool  # and so explains which edges the prediction rests on
    needs_gradients: bool  # of the GNN, or its node states; so it refuses black boxes
    learns: bool  # is trained on reference graphs


EXPLAINERS: dict[ExplainerName, ExplainerTraits] = {
    "greedy": ExplainerTraits(scores_edges=False, needs_gradients=False, learns=False),
    "random": ExplainerTraits(scores_edges=False, needs_gradients=False, learns=False),
    "gnnexplainer": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=False),
    "saliency": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=False),
    "gradcam": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=False),
    "integrated-gradients": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=False),
    "pgexplainer": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=True),
    "pgm-explainer": ExplainerTraits(scores_edges=True, needs_gradients=False, learns=False),
    "cxplain": ExplainerTraits(scores_edges=True, needs_gradients=True, learns=True),
    "cf-gnnexplainer": ExplainerTraits(scores_edges=False, needs_gradients=True, learns=False),
}

# What a receipt records; the modules say where the values come from.
SETTINGS: dict[ExplainerName, dict[str, int | float]] = {
    "greedy": {},
    "random": {},
    "gnnexplainer": {"epochs": gnn_explainer.EPOCHS},
    "saliency": {},
    "gradcam": {},
    "integrated-gradients": {"steps": integrated_gradients.STEPS},
    "pgexplainer": {"epochs": pg_explainer.EPOCHS, "training_graphs": pg_explainer.GRAPHS},
    "pgm-explainer": {"samples": pgm_explainer.SAMPLES, "threshold": pgm_explainer.THRESHOLD},
    "cxplain": {"epochs": cxplain.EPOCHS, "training_graphs": cxplain.GRAPHS},
    "cf-gnnexplainer": {
        "epochs": cf_gnn_explainer.EPOCHS,
        "learning_rate": cf_gnn_explainer.LEARNING_RATE,
        "beta": cf_gnn_explainer.BETA,
    },
}

_UNTRAINED: dict[str, Callable[[], Explainer]] = {
    "greedy": Greedy,
    "random": RandomEdits,
    "gnnexplainer": GnnExplainer,
    "saliency": Saliency,
    "gradcam": GradCam,
    "integrated-gradients": IntegratedGradients,
    "pgm-explainer": PgmExplainer,
    "cf-gnnexplainer": CfGnnExplainer,
}


def make_explainer(
    name: ExplainerName,
    gnn: Gnn,
    reference: Sequence[Graph],
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
) -> Explainer:
    """The explainer, ready to explain; trains it on some reference graphs if it learns.

    The seed decides the graphs and the training. Raises StoppedError if stopped while training.
    """
    gnn.eval()
    traits = EXPLAINERS[name]
    if traits.needs_gradients and not gnn.has_dense:
        raise NoGradientsError(name)
    if not traits.learns:
        return _UNTRAINED[name]()
    generator = torch.Generator().manual_seed(seed)
    count = pg_explainer.GRAPHS if name == "pgexplainer" else cxplain.GRAPHS
    order = torch.randperm(len(reference), generator=generator)[:count].tolist()
    graphs = [reference[position] for position in order]
    if name == "pgexplainer":
        return pg_explainer.PgExplainer.train(gnn, graphs, generator, should_stop=should_stop)
    return cxplain.CxPlain.train(gnn, graphs, generator, device=device, should_stop=should_stop)
