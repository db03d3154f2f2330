"""Witnesses: small GNNs trained beside the user's GNN on its reference set.

Selection witnesses take part in the search. Judges never do; they only say whether they share a
flip. Both kinds differ from the GNN in weights and architecture, so an edit that convinces all of
them is not a quirk of one network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GnnSpec
from models.witnesses.architectures import Architecture, witness_spec
from models.witnesses.classifier_training import EpochReport, LabelledGraphs, Training, train

MIN_GRAPHS = 100  # fewer reference graphs train no witness that could judge
MIN_AGREEMENT = 0.7  # a witness that agrees less often with the GNN answers another question
MAX_GRAPHS = 4000  # more graphs hardly change a witness
_MAX_DEPTH = 3
_TRAINED_SHARE = 0.85  # the rest selects the epoch and measures the agreement
_MIN_STEPS, _MIN_EPOCHS = 600, 30
# A training stops after this many steps without a gain. With fewer held-out graphs their chance
# decides, so small sets take all steps; see decision 16.
_PATIENCE, _MIN_HELD_OUT = 75, 100

Labels = Literal["gnn", "true"]


class Role(Enum):
    SELECTION = "selection"
    JUDGE = "judge"


@dataclass(frozen=True)
class WitnessPlan:
    """One witness to train."""

    role: Role
    architecture: Architecture
    seed: int

    @property
    def edge_noise(self) -> bool:
        """Selection witnesses learn with edge noise, so that they have fewer quirks to satisfy."""
        return self.role is Role.SELECTION


# Ten selection witnesses share more with unseen judges than six or three; two architectures share
# more than one. The judges' second architecture is in no search.
PLANS = (
    *(WitnessPlan(Role.SELECTION, Architecture.GIN, 301 + place) for place in range(5)),
    *(WitnessPlan(Role.SELECTION, Architecture.SAGE, 401 + place) for place in range(5)),
    *(WitnessPlan(Role.JUDGE, Architecture.GIN, 501 + place) for place in range(3)),
    *(WitnessPlan(Role.JUDGE, Architecture.GCN, 601 + place) for place in range(2)),
)


@dataclass(frozen=True)
class Witness:
    gnn: Gnn  # in eval mode, on the CPU
    plan: WitnessPlan
    labels: Labels  # what it learned
    agreement: float  # with the GNN, on reference graphs that it was not trained on

    @property
    def is_usable(self) -> bool:
        """Whether it learned the GNN's task; a SAGE sees nothing in constant features."""
        return self.agreement >= MIN_AGREEMENT


@dataclass(frozen=True)
class WitnessSet:
    witnesses: tuple[Witness, ...]

    def usable(self, role: Role) -> tuple[Gnn, ...]:
        """The networks of the role that agree with the GNN often enough."""
        return tuple(
            witness.gnn
            for witness in self.witnesses
            if witness.plan.role is role and witness.is_usable
        )

    def tensors(self) -> dict[str, Tensor]:
        """All weights, named by the witness's position."""
        return {
            f"{position}.{name}": value.detach().cpu().clone()
            for position, witness in enumerate(self.witnesses)
            for name, value in witness.gnn.state_dict().items()
        }

    def description(self) -> list[dict[str, object]]:
        """What `load_witnesses` needs besides the tensors, as JSON values."""
        return [
            {
                "role": witness.plan.role.value,
                "architecture": witness.plan.architecture.value,
                "seed": witness.plan.seed,
                "labels": witness.labels,
                "agreement": witness.agreement,
                "depth": witness.gnn.spec.convolutions,
            }
            for witness in self.witnesses
        ]


@dataclass(frozen=True)
class WitnessProgress:
    finished: int  # witnesses
    total: int
    epoch: int
    epochs: int


class WitnessTrainingStoppedError(Exception):
    """The caller asked to stop; a later training starts over."""


def train_witnesses(
    gnn: Gnn,
    graphs: Sequence[Graph],
    true_labels: Tensor | None,  # [graph] int64; None if the reference set has none
    *,
    seed: int,
    device: torch.device,
    plans: Sequence[WitnessPlan] = PLANS,
    stops_early: bool = True,
    on_progress: Callable[[WitnessProgress], None] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> WitnessSet:
    """Trains all witnesses; the result depends on the arguments and the seed alone.

    Selection witnesses learn the GNN's own labels. Judges learn the true labels if there are any.
    For a node classifier the graphs are neighbourhoods with a marked node.
    """
    if len(graphs) < MIN_GRAPHS:
        raise ValueError(f"witnesses need {MIN_GRAPHS} reference graphs, got {len(graphs)}")
    if true_labels is not None:
        _check_labels(true_labels, len(graphs), gnn.spec.classes)
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
    chosen = order[:MAX_GRAPHS]
    kept = [_plain(graphs[position]) for position in chosen.tolist()]
    by_gnn = predict(gnn, [graphs[position] for position in chosen.tolist()], device).argmax(dim=1)
    truth = None if true_labels is None else true_labels[chosen]
    witnesses = []
    for position, plan in enumerate(_seeing(plans, kept)):

        def report(epoch: EpochReport, finished: int = position) -> None:
            on_progress(WitnessProgress(finished, len(plans), epoch.epoch, epoch.epochs))
            if should_stop():
                raise WitnessTrainingStoppedError

        uses_truth = plan.role is Role.JUDGE and truth is not None
        labels = truth if uses_truth and truth is not None else by_gnn
        data = LabelledGraphs(kept, labels)
        spec = _spec_like(gnn.spec, plan.architecture)
        split_seed = torch.Generator().manual_seed(seed + plan.seed)
        shuffled = torch.randperm(len(kept), generator=split_seed)
        cut = int(_TRAINED_SHARE * len(kept))
        held_out = shuffled[cut:]
        trained = train(
            spec,
            data.select(shuffled[:cut]),
            _training(
                cut,
                edge_noise=plan.edge_noise,
                stops_early=stops_early and len(held_out) >= _MIN_HELD_OUT,
            ),
            seed + plan.seed,
            report,
            validation=data.select(held_out),
            device=device,
        )
        answers = predict(trained.gnn, [kept[place] for place in held_out.tolist()], device)
        agreement = float((answers.argmax(dim=1) == by_gnn[held_out]).double().mean())
        witnesses.append(
            Witness(trained.gnn.cpu(), plan, "true" if uses_truth else "gnn", agreement)
        )
    return WitnessSet(tuple(witnesses))


def load_witnesses(
    gnn: GnnSpec, description: Sequence[Mapping[str, object]], tensors: Mapping[str, Tensor]
) -> WitnessSet:
    """Rebuilds a stored set for a GNN with this spec."""
    return WitnessSet(tuple(_loaded(gnn, description, tensors)))


def _loaded(
    gnn: GnnSpec, description: Sequence[Mapping[str, object]], tensors: Mapping[str, Tensor]
) -> Iterator[Witness]:
    for position, entry in enumerate(description):
        plan = WitnessPlan(
            Role(entry["role"]), Architecture(entry["architecture"]), int(str(entry["seed"]))
        )
        prefix = f"{position}."
        weights = {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }
        network = Gnn(_spec_like(gnn, plan.architecture, int(str(entry["depth"]))))
        network.load_state_dict(weights)
        labels: Labels = "true" if entry["labels"] == "true" else "gnn"
        yield Witness(network.eval(), plan, labels, float(str(entry["agreement"])))


def _check_labels(labels: Tensor, graphs: int, classes: int) -> None:
    if len(labels) != graphs:
        raise ValueError(f"{len(labels)} true labels were given for {graphs} graphs")
    if not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"true labels must be from 0 to {classes - 1}, "
            f"got {int(labels.min())} to {int(labels.max())}"
        )


def _seeing(plans: Sequence[WitnessPlan], graphs: Sequence[Graph]) -> list[WitnessPlan]:
    """SAGE's means see no edges if all nodes have the same features; GIN's sums do."""
    first = graphs[0].features[:1]
    if any(bool((graph.features != first).any()) for graph in graphs):
        return list(plans)
    return [
        replace(plan, architecture=Architecture.GIN)
        if plan.architecture is Architecture.SAGE
        else plan
        for plan in plans
    ]


def _spec_like(gnn: GnnSpec, architecture: Architecture, depth: int | None = None) -> GnnSpec:
    """A witness reads no farther than the GNN: a node's neighbourhood holds no more."""
    if depth is None:
        farthest = gnn.convolutions
        if gnn.classifies_nodes and architecture is Architecture.GCN:
            farthest = gnn.receptive_field - 1  # GCN also reads the degrees one hop farther
        depth = max(1, min(_MAX_DEPTH, farthest)) if gnn.classifies_nodes else _MAX_DEPTH
    return witness_spec(
        architecture,
        features=gnn.features,
        classes=gnn.classes,
        depth=depth,
        classifies_nodes=gnn.classifies_nodes,
    )


def _training(graphs: int, *, edge_noise: bool, stops_early: bool) -> Training:
    """30 epochs; more for small sets, so that every witness takes enough steps."""
    batch = min(128, max(16, graphs // 8))
    batches = math.ceil(graphs / batch)
    return Training(
        epochs=max(_MIN_EPOCHS, math.ceil(_MIN_STEPS / batches)),
        batch=batch,
        learning_rate=2e-3,
        noisy_share=0.5 if edge_noise else 0.0,
        seconds=math.inf,
        ema=0.99,
        patience=_PATIENCE if stops_early else 0,
    )


def _plain(graph: Graph) -> Graph:
    """Without edge attributes, which witnesses do not read."""
    return replace(graph.cpu(), edge_attributes=None, usual=None)
