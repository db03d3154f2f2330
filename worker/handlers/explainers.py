"""Maps explainers to the samplers of `models`, and prepares those that come with a module."""

from __future__ import annotations

from typing import Any

from d4explain.contracts.requests import (
    PLAIN_EXPLAINERS,
    ClassExplainer,
    CounterfactualRequest,
    PlainExplainer,
)
from d4explain.contracts.requests import Explainer as ExplainerName
from d4explain.gnn.network import Gnn
from models.classes.config import Sampler as ClassSampler
from models.counterfactual.config import Sampler
from models.counterfactual.oracle import StoppedError
from models.explainers.catalogue import EXPLAINERS, SETTINGS, make_explainer
from models.explainers.interface import Explainer
from worker.execution.handler_api import HandlerContext
from worker.loading.job_inputs import JobInputs

SAMPLERS: dict[ExplainerName, Sampler] = {
    "d4": "guided",
    "d4-paper": "paper",
    "search": "guided",  # without a denoiser
    **dict.fromkeys(PLAIN_EXPLAINERS, "explainer"),
}
CLASS_SAMPLERS: dict[ClassExplainer, ClassSampler] = {
    "d4": "guided",
    "d4-paper": "paper",
    "mined": "guided",  # without a denoiser
    "xgnn": "xgnn",
    "hill-climbing": "hill-climbing",
}
# A trained explainer is reused for the same GNN and reference set, so requests do not seed it.
_TRAINING_SEED = 0


def explainer_of(
    context: HandlerContext, request: CounterfactualRequest, inputs: JobInputs, gnn: Gnn
) -> Explainer | None:
    """The explainer of a request, None for our own; training takes part of the job's time."""
    name = _plain(request)
    if name is None:
        return None
    library = context.library

    def make() -> Explainer:
        learns = EXPLAINERS[name].learns
        reference = library.reference(inputs.gnn, inputs.dataset).graphs if learns else ()
        return make_explainer(
            name,
            gnn,
            reference,
            seed=_TRAINING_SEED,
            device=library.device,
            should_stop=context.control.should_stop,
        )

    try:
        if not EXPLAINERS[name].learns:
            return make()
        return library.explainer(name, inputs.gnn, inputs.dataset, make)
    except StoppedError:
        context.control.raise_if_stopped()
        raise


def explainer_settings(request: CounterfactualRequest) -> dict[str, Any]:
    """The settings of a plain explainer, for the receipt."""
    name = _plain(request)
    return {} if name is None else dict(SETTINGS[name])


def _plain(request: CounterfactualRequest) -> PlainExplainer | None:
    return next((name for name in PLAIN_EXPLAINERS if name == request.explainer), None)
