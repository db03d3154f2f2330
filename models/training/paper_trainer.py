"""The paper's training: epochs of random batches, several noise levels per graph, Adam.

The loss of a batch is a sum over noisy graphs. So a step makes several passes over graphs of
similar size, whose gradients add up to the gradient of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from d4explain.gnn.device import DeviceUse
from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn
from models.diffusion.noise import NoiseLevel, add_noise, uniform_noise
from models.diffusion.paper.counterfactual_loss import sampled_counterfactual_loss
from models.diffusion.paper.distribution_loss import weighted_distribution_loss
from models.diffusion.paper.network import KEPT_PER_LAYER, PaperDenoiser
from models.diffusion.paper.recipe import PaperRecipe
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.training.batches import single_precision
from models.training.progress import SMOOTHING, NonFiniteGradientError, TrainingProgress
from models.training.training_inputs import are_marked, frozen_copy


class _StepLosses(NamedTuple):
    dist: float
    cf: float | None = None
    flip_rate: float | None = None


class PaperTrainer:
    """Trains one `PaperDenoiser`; the seed decides initial weights, batches and noise.

    It draws from its own generator only. `state()` is a flat dict of tensors. A trainer that has
    the same arguments and loads this state continues bit-identically on the same machine.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        gnn: Gnn | None,
        recipe: PaperRecipe,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        marked = are_marked(graphs, gnn, needs_gnn=recipe.has_counterfactual_loss)
        # A graph of one node has no pair to learn from.
        usable = [graph for graph in graphs if graph.node_count > 1] or list(graphs)
        usable = [single_precision(graph.cpu()) for graph in usable]
        self.step = 0
        self.steps = recipe.total_steps(len(usable))
        self._recipe = recipe
        self._device = device
        self._gnn = None if gnn is None else frozen_copy(gnn, device)
        self._generator = torch.Generator().manual_seed(seed)
        shape = recipe.shape(graphs[0].features.shape[1], marked=marked)
        self._model = PaperDenoiser(shape, self._generator).to(device)
        self._use = DeviceUse.of(device, KEPT_PER_LAYER * shape.blocks)
        self._graphs = usable
        self._order: list[int] = []  # graphs that this epoch has not taken yet
        self._optimizer = torch.optim.Adam(
            self._model.parameters(), lr=recipe.learning_rate, fused=True
        )
        self._smoothed: dict[str, float] = {}
        self._seconds = 0.0

    @property
    def finished(self) -> bool:
        return self.step >= self.steps

    @property
    def without_gradient(self) -> bool:
        """Whether L_cf is trained without the GNN's gradient."""
        has_loss = self._recipe.has_counterfactual_loss
        return has_loss and self._gnn is not None and not self._gnn.has_dense

    def run(
        self, *, should_stop: Callable[[], bool] = lambda: False, until: int | None = None
    ) -> Iterator[TrainingProgress]:
        """Takes steps until the training is finished, at step `until`, or stopped."""
        end = self.steps if until is None else min(until, self.steps)
        while self.step < end and not should_stop():
            started = time.perf_counter()
            losses = self._take_step()
            self._smooth("dist", losses.dist)
            if losses.cf is not None and losses.flip_rate is not None:
                self._smooth("cf", losses.cf)
                self._smooth("flip_rate", losses.flip_rate)
            self._seconds += time.perf_counter() - started
            yield self.progress()

    def denoiser(self) -> PaperDenoiser:
        """The denoiser with the last weights; in eval mode, on the CPU."""
        denoiser = PaperDenoiser(self._model.shape)
        denoiser.load_state_dict(self._model.state_dict())
        return denoiser.eval()

    def state(self) -> dict[str, Tensor]:
        tensors = {
            "step": torch.tensor(self.step),
            "generator": self._generator.get_state(),
            "seconds": torch.tensor(self._seconds, dtype=torch.float64),
            "order": torch.tensor(self._order).long(),
        }
        for name, number in self._smoothed.items():
            tensors[f"smoothed.{name}"] = torch.tensor(number, dtype=torch.float64)
        for name, parameter in self._model.named_parameters():
            tensors[f"weights.{name}"] = parameter.detach().cpu().clone()
            for moment, value in self._optimizer.state[parameter].items():
                tensors[f"adam.{moment}.{name}"] = value.cpu().clone()
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        weights = {name: tensors[f"weights.{name}"] for name in self._model.state_dict()}
        self._model.load_state_dict(weights)
        self.step = int(tensors["step"])
        self._seconds = float(tensors["seconds"])
        self._generator.set_state(tensors["generator"].cpu())
        self._order = tensors["order"].tolist()
        self._smoothed = {
            name.removeprefix("smoothed."): float(value)
            for name, value in tensors.items()
            if name.startswith("smoothed.")
        }
        named = dict(self._model.named_parameters())
        self._optimizer.state.clear()
        for key, value in tensors.items():
            if key.startswith("adam."):
                _, moment, name = key.split(".", 2)
                self._optimizer.state[named[name]][moment] = value.clone().to(self._device)

    def _take_step(self) -> _StepLosses:
        recipe = self._recipe
        levels = recipe.noise_levels
        # Noisy versions of a graph, and graphs of similar size, stand together.
        batch = sorted(self._next_graphs(), key=lambda graph: graph.node_count)
        noisy_graphs = [graph for graph in batch for _ in range(levels)]
        noise = uniform_noise(len(noisy_graphs), self._generator)
        self._optimizer.zero_grad()
        dist = cf = flips = 0.0
        for part in self._passes([graph.node_count for graph in noisy_graphs]):
            sums = self._add_gradients(noisy_graphs[part], noise.select(part), len(batch))
            dist, cf, flips = dist + sums[0], cf + sums[1], flips + sums[2]
        # L_dist is a sum over noise levels, L_cf a mean; both are means over graphs.
        dist, cf, flips = dist / len(batch), cf / len(noisy_graphs), flips / len(noisy_graphs)
        # An infinite bound clips nothing; the call only computes the norm.
        norm = clip_grad_norm_(self._model.parameters(), float("inf"))
        if not torch.isfinite(norm):
            raise NonFiniteGradientError(self.step, dist + recipe.alpha * cf)
        for group in self._optimizer.param_groups:
            group["lr"] = recipe.rate_at(self.step, len(self._graphs))
        self._optimizer.step()
        self.step += 1
        if not recipe.has_counterfactual_loss:
            return _StepLosses(dist)
        return _StepLosses(dist, cf, flips)

    def _add_gradients(
        self, graphs: Sequence[Graph], noise: NoiseLevel, batch: int
    ) -> tuple[float, float, float]:
        """One forward and backward pass; the sums of L_dist, L_cf and flips over its graphs.

        `batch` is the number of clean graphs of the step.
        """
        recipe = self._recipe
        clean = to_dense(graphs)
        noisy = add_noise(clean, noise, self._generator).to(self._device)
        clean, noise = clean.to(self._device), noise.to(self._device)
        with self._use.fast_products():
            logits = self._model(noisy, noise)
        dist = weighted_distribution_loss(logits, clean, noise.add, recipe.noise_levels).sum()
        loss, cf, flips = dist, torch.zeros_like(dist), 0.0
        if self._gnn is not None and recipe.has_counterfactual_loss:
            sampled = sampled_counterfactual_loss(
                self._gnn,
                logits,
                clean,
                temperature=recipe.temperature,
                generator=self._generator,
            )
            cf, flips = sampled.loss.sum(), sampled.flip_rate * clean.count
            loss = dist + recipe.alpha * cf / recipe.noise_levels
        (loss / batch).backward()  # type: ignore[no-untyped-call]
        return dist.item(), cf.item(), flips

    def _next_graphs(self) -> list[Graph]:
        """The next batch of the epoch; a new epoch is a new random order."""
        if not self._order:
            self._order = torch.randperm(len(self._graphs), generator=self._generator).tolist()
        size = self._recipe.batch_graphs
        chosen, self._order = self._order[:size], self._order[size:]
        return [self._part(self._graphs[index]) for index in chosen]

    def _part(self, graph: Graph) -> Graph:
        most = self._recipe.max_nodes
        if graph.node_count <= most:
            return graph
        return connected_subgraph(graph, neighbours_of(graph), most, self._generator)

    def _passes(self, sizes: Sequence[int]) -> Iterator[slice]:
        """Ranges of sorted graphs whose padded activations fit one pass."""
        start = 0
        for end in range(1, len(sizes) + 1):
            if (
                end == len(sizes)
                or self._bytes(sizes[start : end + 1]) > self._use.activation_bytes
            ):
                yield slice(start, end)
                start = end

    def _bytes(self, sizes: Sequence[int]) -> int:
        """Size of one activation of graphs that are padded to the largest, the last."""
        return len(sizes) * sizes[-1] ** 2 * self._recipe.hidden * 4

    def _smooth(self, name: str, value: float) -> None:
        before = self._smoothed.get(name, value)
        self._smoothed[name] = SMOOTHING * before + (1 - SMOOTHING) * value

    def progress(self) -> TrainingProgress:
        """The progress after the last step, of which there must be one."""
        dist, cf = self._smoothed["dist"], self._smoothed.get("cf")
        return TrainingProgress(
            step=self.step,
            steps=self.steps,
            loss=dist if cf is None else dist + self._recipe.alpha * cf,
            loss_dist=dist,
            loss_cf=cf,
            flip_rate=self._smoothed.get("flip_rate"),
            detection_auc=None,
            validity=None,
            seconds=self._seconds,
        )
