"""Builds graphs by the sampler of the config, as many as it asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn
from models.classes.alone.hill_climbing import climb
from models.classes.alone.xgnn import NodeKinds, generate
from models.classes.config import ClassConfig
from models.classes.node_features import ClassParts
from models.classes.pool import distinct
from models.errors import NoEdgeAttributesError


def build_alone(
    gnn: Gnn,
    config: ClassConfig,
    parts: ClassParts,
    class_graphs: list[Graph],
    *,
    sizes: Sequence[int],
    generator: torch.Generator,
    device: torch.device,
    should_stop: Callable[[], bool],
    on_step: Callable[[int], None],
) -> list[Graph]:
    """One graph per entry of `sizes`, without repetitions unless the config wants them.

    Hill climbing tries every toggle at every step; XGNN trains one policy per size.
    """
    if gnn.spec.edge_features:
        raise NoEdgeAttributesError(config.sampler)
    built = _built(
        gnn,
        config,
        parts,
        class_graphs,
        sizes=sizes,
        generator=generator,
        device=device,
        should_stop=should_stop,
        on_step=on_step,
    )
    if config.repeats or not built:
        return built
    return [built[place] for place in distinct(to_dense(built)).tolist()]


def _built(
    gnn: Gnn,
    config: ClassConfig,
    parts: ClassParts,
    class_graphs: list[Graph],
    *,
    sizes: Sequence[int],
    generator: torch.Generator,
    device: torch.device,
    should_stop: Callable[[], bool],
    on_step: Callable[[int], None],
) -> list[Graph]:
    if config.sampler == "hill-climbing":
        return climb(
            gnn,
            config.target_class,
            parts,
            sizes=sizes,
            steps=config.steps,
            generator=generator,
            device=device,
            should_stop=should_stop,
            on_step=on_step,
        )
    kinds = NodeKinds.of(class_graphs, generator)
    built: list[Graph] = []
    for size in dict.fromkeys(sizes):
        if should_stop():
            break
        built += generate(
            gnn,
            config.target_class,
            kinds,
            nodes=size,
            count=sizes.count(size),
            marked=class_graphs[0].target is not None,
            generator=generator,
            device=device,
            should_stop=should_stop,
        )
        on_step(len(built))
    return built
