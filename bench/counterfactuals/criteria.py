"""Criteria that choose among a method's alternatives by the denoiser, without judges.

- Purification: the share of noised and denoised copies that keep the answer's class. An answer that
  depends on a quirk of the GNN may lose its class, as adversarial examples do (Nie et al. 2022).
- Typicality: the log-likelihood of the answer's least likely node.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bench.counterfactuals.figures import MethodResult, toggle_pairs
from bench.counterfactuals.instances import CPU
from bench.counterfactuals.methods import Criterion
from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel, add_noise, symmetric_uniform
from models.diffusion.typicality import typicality_scores

_COPIES = 12
_NOISE = 0.01  # of each pair; .03 and .08 foretold transfer less well in an experiment


def best_first(
    answer: MethodResult, criterion: Criterion, gnn: Gnn, denoiser: EdgeDenoiser, seed: int
) -> MethodResult:
    """The same alternatives in the criterion's order; equal ones keep theirs."""
    started = time.process_time()
    graphs = [toggle_pairs(answer.instance.graph, edits) for edits in answer.found]
    if len(graphs) < 2:
        return answer
    if criterion is Criterion.PURIFICATION:
        scores, asked = purified_shares(gnn, denoiser, graphs, seed=seed), _COPIES * len(graphs)
    else:
        scores, asked = typicality_scores(denoiser, graphs, CPU), 0
    order = scores.argsort(descending=True, stable=True).tolist()
    return replace(
        answer,
        found=tuple(answer.found[place] for place in order),
        gnn_evaluations=answer.gnn_evaluations + asked,
        cpu_seconds=answer.cpu_seconds + time.process_time() - started,
    )


def purified_shares(
    gnn: Gnn, denoiser: EdgeDenoiser, graphs: Sequence[Graph], *, seed: int
) -> Tensor:
    """Share of each graph's noised and denoised copies that keep its class: [graph]."""
    generator = torch.Generator().manual_seed(seed)
    classes = predict(gnn, graphs, CPU).argmax(dim=1)
    shares = []
    with torch.inference_mode():
        for graph, label in zip(graphs, classes.tolist(), strict=True):
            copies = to_dense([graph] * _COPIES)
            noise = NoiseLevel.symmetric(torch.full((_COPIES,), _NOISE))
            noisy = add_noise(copies, noise, generator)
            edge_probability = torch.sigmoid(denoiser(noisy, noise))
            drawn = symmetric_uniform(noisy.adjacency, generator) < edge_probability
            denoised = copies.with_adjacency((drawn & copies.pair_mask).to(torch.float32))
            shares.append((gnn.answers(denoised).argmax(dim=1) == label).double().mean())
    return torch.stack(shares)
