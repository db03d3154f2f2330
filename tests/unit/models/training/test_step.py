"""A step's gradient: the same in any number of passes, planned by what a device has room for."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.device import CPU_ACTIVATION_BYTES, CUDA_SHARE, DeviceUse
from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import drawn_toggles, gnn_sensitivity, logit_changes
from models.diffusion.noise import NoiseLevel, add_noise
from models.diffusion.ppgn import KEPT_PER_BLOCK, PpgnBlock
from models.diffusion.recipes import Objective, Recipe, recipe_for
from models.training.step import EFFECT_TOGGLES, NoisyBatch, StepLosses, add_gradients

torch.set_num_threads(1)

COUNT, NODES, HIDDEN = 7, 5, 6
RECIPE = recipe_for(Objective.COUNTERFACTUAL, hidden=HIDDEN, blocks=2)
ONE_GRAPH = HIDDEN * NODES**2 * 8  # bytes of an activation in float64


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gnn() -> Gnn:
    layers = (GcnLayer(4), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(3))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = Gnn(GnnSpec(features=2, classes=3, layers=layers))
    return made.double().eval().requires_grad_(False)


def batch() -> NoisyBatch:
    graphs = []
    for seed in range(COUNT):
        nodes = NODES - seed % 2  # some have padding
        upper = torch.triu(torch.rand(nodes, nodes, generator=rng(seed)) < 0.5, diagonal=1)
        features = torch.randn(nodes, 2, generator=rng(seed), dtype=torch.float64)
        graphs.append(Graph(features, upper.nonzero().T))
    clean = to_dense(graphs)
    # some graphs are too noisy for the effect head
    flips = torch.linspace(0.01, 0.11, COUNT, dtype=torch.float64)
    noise = NoiseLevel.symmetric(flips)
    return NoisyBatch(clean, add_noise(clean, noise, rng(1)), noise)


def denoiser(recipe: Recipe) -> Denoiser:
    made = Denoiser(recipe.shape(2, gnn=gnn().spec), rng(2)).double()
    with torch.no_grad():
        for weight in (made.head_out, made.effect_out):
            weight.normal_(generator=rng(3))
        made.effect_scale.fill_(0.5)
    return made


def gradients(use: DeviceUse) -> tuple[StepLosses, dict[str, Tensor]]:
    model = denoiser(RECIPE)
    losses = add_gradients(model, gnn(), RECIPE, batch(), use=use, generator=rng(4))
    named = model.named_parameters()
    return losses, {name: value.grad for name, value in named if value.grad is not None}


def cpu_use(graphs_per_pass: int) -> DeviceUse:
    return DeviceUse("cpu", graphs_per_pass * ONE_GRAPH, None)


@pytest.mark.parametrize("graphs_per_pass", [1, 3, COUNT])
def test_gradient_is_that_of_the_whole_batch_written_out(graphs_per_pass: int) -> None:
    """The mean over graphs of the cross-entropy, and that over toggles."""
    losses, found = gradients(cpu_use(graphs_per_pass))
    model, whole, judge = denoiser(RECIPE), batch(), gnn()
    logits, effects = model.with_effects(
        whole.noisy, whole.noise, gnn_sensitivity(judge, whole.noisy)
    )
    probability = logits.sigmoid()
    target = whole.clean.adjacency
    entropy = -(target * probability.log() + (1 - target) * (1 - probability).log())
    per_graph = (entropy * whole.clean.pair_mask).sum((1, 2)) / target.sum((1, 2)).clamp(min=2)
    dist = per_graph.mean()

    near = whole.noise.remove <= RECIPE.effect_noise
    assert 0 < near.sum() < COUNT
    index = near.nonzero()[:, 0]
    graphs = whole.noisy.select(index)
    toggles = drawn_toggles(graphs, graphs.pair_mask, EFFECT_TOGGLES, rng(4))
    apart = toggles.of(effects[:, index]) - logit_changes(judge, graphs, toggles) / 0.5
    size = apart.abs()
    missed = torch.where(size < 1, size.square() / 2, size - 0.5).mean()
    (dist + missed).backward()

    assert losses.dist == pytest.approx(dist.item())
    assert losses.total == pytest.approx((dist + missed).item())
    expected = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
        assert value.abs().max() > 0


def test_noisy_graphs_do_not_train_the_effect_head() -> None:
    model, noisy = denoiser(RECIPE), batch()
    noisy = replace(noisy, noise=NoiseLevel.symmetric(noisy.noise.add + RECIPE.effect_noise))
    losses = add_gradients(model, gnn(), RECIPE, noisy, use=cpu_use(3), generator=rng(4))
    assert losses.total == pytest.approx(losses.dist)
    assert model.effect_out.grad is None or not model.effect_out.grad.any()
    assert model.head_out.grad is not None
    assert model.head_out.grad.any()


@given(graphs=st.integers(1, 400), size=st.integers(1, 10_000), room=st.integers(1, 100_000))
def test_passes_split_a_batch_evenly_within_the_memory_limit(
    graphs: int, size: int, room: int
) -> None:
    passes = DeviceUse("cpu", room, None).passes(graphs, size)
    assert [place for one in passes for place in range(graphs)[one]] == list(range(graphs))
    lengths = [one.stop - one.start for one in passes]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) * size <= room or max(lengths) == 1
    # one pass fewer would not do
    fewer = len(passes) - 1
    assert fewer == 0 or size > room or -(-graphs // fewer) * size > room


def test_a_block_keeps_as_many_activations_as_memory_is_planned_with() -> None:
    hidden, count, nodes = 8, 3, 6
    block = PpgnBlock(hidden, 1, rng(0))
    state = torch.randn(hidden, count, nodes, nodes, generator=rng(1), requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        block(state, torch.full((count,), float(nodes)))
    activation = state.nbytes
    large = [size for size in kept.values() if size >= activation]
    assert sum(large) == KEPT_PER_BLOCK * activation


def test_cuda_gets_larger_passes_and_bfloat16_if_supported() -> None:
    memory, kept = 16 * 2**30, 20
    use = DeviceUse.of_cuda(kept, memory, bfloat16=True)
    assert use.products is torch.bfloat16
    assert use.activation_bytes > CPU_ACTIVATION_BYTES
    assert use.activation_bytes * kept <= CUDA_SHARE * memory
    assert DeviceUse.of_cuda(kept, memory, bfloat16=False).products is None
    on_cpu = DeviceUse.of(torch.device("cpu"), kept)
    assert on_cpu == DeviceUse("cpu", CPU_ACTIVATION_BYTES, None)


def test_products_of_less_precision_give_nearly_the_same_gradient() -> None:
    """The CPU's bfloat16 stands in for a GPU's."""
    recipe = RECIPE
    whole, judge = batch(), gnn().float()
    single = NoisyBatch(
        *(
            replace(graphs, adjacency=graphs.adjacency.float(), features=graphs.features.float())
            for graphs in (whole.clean, whole.noisy)
        ),
        NoiseLevel.symmetric(whole.noise.add.float()),
    )
    found = []
    for products in (None, torch.bfloat16):
        model = denoiser(recipe).float()
        use = DeviceUse("cpu", CPU_ACTIVATION_BYTES, products)
        losses = add_gradients(model, judge, recipe, single, use=use, generator=rng(4))
        grads = [value.grad for value in model.parameters() if value.grad is not None]
        assert all(grad.dtype == torch.float32 for grad in grads)
        found.append((losses.dist, torch.cat([grad.flatten() for grad in grads])))
    (dist, exact), (near_dist, near) = found
    assert near_dist == pytest.approx(dist, rel=0.02)
    assert near_dist != dist  # products were indeed of less precision
    assert float((near - exact).norm() / exact.norm()) < 0.1


# in a process of its own: the heap of one that has run other tests has gaps
FAULTS_OF_LATER_PASSES = """
import resource, torch
from d4explain.gnn.device import keep_freed_memory

def faults_of_a_pass():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept = [torch.zeros(2**20) for _ in range(20)]  # 80 MiB in all
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if keep_freed_memory():
    print(*(faults_of_a_pass() for _ in range(3)))
"""


def test_freed_memory_is_reused_without_page_faults() -> None:
    told = subprocess.run(
        [sys.executable, "-c", FAULTS_OF_LATER_PASSES], capture_output=True, text=True, check=True
    ).stdout
    if not told:
        pytest.skip("only the GNU C library can be told")
    first, *later = map(int, told.split())
    if first < 80 * 2**20 // resource.getpagesize():
        pytest.skip("the kernel hands out larger pages than it says")
    # untold, the library gives memory back and each of the two takes as many faults as the first
    assert sum(later) < first
