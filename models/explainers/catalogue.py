"""The explainers by name, what each needs of the GNN, and the training of those that learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.errors import NoGradientsError
from models.explainers import cxplain, pg_explainer
from models.explainers.cf_gnn_explainer import CfGnnExplainer
from models.explainers.gnn_explainer import GnnExplainer
from models.explainers.grad_cam import GradCam
from models.explainers.greedy import Greedy
from models.explainers.integrated_gradients import IntegratedGradients
from models.explainers.interface import Explainer
from models.explainers.pgm_explainer import PgmExplainer
from models.explainers.random_edits import RandomEdits
from models.explainers.saliency import Saliency

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
