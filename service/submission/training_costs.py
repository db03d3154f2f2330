"""Estimates the training time of a denoiser, as an order of magnitude.

The estimate is for one CPU core; a GPU is faster. The constants are fitted to steps with 8 to 256
channels and 10 to 128 nodes on a core of an AMD EPYC virtual machine. There the estimate was 0.9 to
1.8 times the measured time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from d4explain.contracts.requests import DenoiserConfig, has_unknown_loss
from service.http.faults import reject
from store.catalogue import denoisers, gnns, witness_sets
from store.database.tables import Dataset, Gnn
from store.settings import Settings

_SECONDS_PER_STEP = 0.01
_SECONDS_PER_CHANNEL = 4e-8  # per node pair and block
_SECONDS_PER_CHANNEL_SQUARED = 4.5e-10  # per node pair and block
_MAX_NODES = 128  # training takes parts of larger graphs
_MAX_PAIRS = 40_000  # per batch
_SUBGRAPH_PAIRS = 64 * 12**2  # in a batch of small subgraphs
_NEIGHBOURHOODS = 1000  # of a node classifier's reference set
_NEIGHBOURHOOD_SIZE = 100.0  # nodes and edges, as an order of magnitude
_SQUARE_OVER_MEAN = 1.4  # mean of the squared node count over its squared mean, in molecule sets


@dataclass(frozen=True)
class RecipeSize:
    """The fields of a recipe that determine its cost; `models.diffusion.recipes` needs torch."""

    steps: int
    hidden: int
    blocks: int
    batch_graphs: int
    subgraph_share: float

    def step_count(self, dataset: Dataset) -> int:
        return self.steps

    def pairs_per_step(self, dataset: Dataset) -> float:
        nodes = min(dataset.max_nodes, _MAX_NODES)
        whole = min(self.batch_graphs * nodes**2, _MAX_PAIRS)
        return self.subgraph_share * _SUBGRAPH_PAIRS + (1 - self.subgraph_share) * whole


@dataclass(frozen=True)
class PaperRecipeSize:
    """The same for the recipe `paper`, which trains for epochs."""

    epochs: int
    hidden: int
    blocks: int
    batch_graphs: int
    noise_levels: int

    def step_count(self, dataset: Dataset) -> int:
        return self.epochs * -(-dataset.graph_count // self.batch_graphs)

    def pairs_per_step(self, dataset: Dataset) -> float:
        largest = min(dataset.max_nodes, _MAX_NODES) ** 2
        graphs = min(self.batch_graphs, dataset.graph_count) * self.noise_levels
        return graphs * min(_SQUARE_OVER_MEAN * dataset.mean_nodes**2, largest)


RECIPE_SIZES: dict[tuple[str, str], RecipeSize | PaperRecipeSize] = {
    ("counterfactual", "default"): RecipeSize(1000, 32, 4, 24, 0.0),
    ("counterfactual", "paper"): PaperRecipeSize(1500, 64, 6, 32, 10),
    ("class", "default"): RecipeSize(500, 32, 4, 24, 0.8),
    ("class", "paper"): PaperRecipeSize(1500, 64, 6, 32, 10),
}


def training_seconds(objective: str, config: DenoiserConfig, dataset: Dataset) -> float:
    size = RECIPE_SIZES[objective, config.recipe]
    channels = config.hidden or size.hidden
    per_pair = channels * (_SECONDS_PER_CHANNEL + _SECONDS_PER_CHANNEL_SQUARED * channels)
    pairs = size.pairs_per_step(dataset)
    per_step = _SECONDS_PER_STEP + pairs * (config.blocks or size.blocks) * per_pair
    return (config.steps or size.step_count(dataset)) * per_step


def witness_seconds(gnn: Gnn, dataset: Dataset) -> float:
    """The same for the witnesses. A node classifier's learn from neighbourhoods of unknown size."""
    size = dataset.mean_nodes + dataset.mean_edges
    if not gnns.classifies_nodes(gnn):
        return witness_sets.training_seconds(dataset.graph_count, size)
    nodes = min(_NEIGHBOURHOODS, round(dataset.graph_count * dataset.mean_nodes))
    return witness_sets.training_seconds(nodes, min(size, _NEIGHBOURHOOD_SIZE))


def check_training(
    session: Session,
    at: str,
    *,
    gnn: Gnn,
    dataset: Dataset,
    objective: str,
    config: DenoiserConfig,
    settings: Settings,
) -> None:
    """Rejects a denoiser that has no recipe, or whose training would take too long."""
    seconds, most = training_seconds(objective, config, dataset), settings.max_training_seconds
    if seconds <= most and not has_unknown_loss(config):
        return
    identity = denoisers.key(gnn.sha256, dataset.sha256, objective, config)
    # It may have been trained already, perhaps by an earlier version.
    if denoisers.is_ready(session, identity, gnn.tenant_id):
        return
    if has_unknown_loss(config):
        reject(
            f"{at}/alpha",
            f"is {config.alpha:g}; the recipe 'default' has no counterfactual loss to weight. Omit "
            "`alpha`, or set `recipe` to 'paper'",
        )
    reject(
        at,
        f"training this denoiser would take about {seconds:,.0f} s of a CPU core; this deployment "
        f"accepts at most {most:,.0f} s (D4_MAX_TRAINING_SECONDS). Lower `steps`, `hidden` or "
        "`blocks`",
    )
