"""The only golden module that imports the code under test; a refactoring changes its imports.

It returns plain JSON documents, so the other modules know no class of the engine.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.data.synthetic import LabelledGraphs
from bench.data.tasks import Task, data_folder, load_task
from bench.gnns.node_training import train_node_classifier
from bench.gnns.training import Training, train
from d4explain.contracts.gnn_spec import stored_spec
from d4explain.export.exporter import export
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    Layer,
    LinearLayer,
    PoolLayer,
)
from models.classes.config import ClassConfig
from models.classes.explain import ClassPattern, explain_class
from models.counterfactual.explain import (
    CounterfactualConfig,
    CounterfactualOutcome,
    EditRules,
    FoundCounterfactual,
    explain,
)
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.nodes import explain_node
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, Recipe, recipe_for
from models.diffusion.stored_denoisers import load_denoiser
from models.graphs.neighbourhoods import NodeInstance, instance
from models.metrics.scores import fidelity, modification_ratio
from models.training.trainer import Trainer
from worker.loading.spec_conversion import spec_from_document

Document = dict[str, Any]

CPU = torch.device("cpu")
FILES = {
    "ba3motif": "BA3Motif_800.npz",
    "mutagenicity": "Mutagenicity.zip",
    "tree_cycle": "Tree_Cycle.npz",
}
_CLASS_REFERENCE = 100  # graphs of the class, and others, that a class explanation reads


@dataclass(frozen=True)
class Setting:
    """The configuration and edit rules of one counterfactual request."""

    config: CounterfactualConfig
    rules: EditRules = field(default_factory=EditRules)


def _preset(name: str) -> Setting:
    return Setting(CounterfactualConfig(search=PRESETS[name]))


SETTINGS: dict[str, Setting] = {
    "balanced": _preset("balanced"),
    "fast": _preset("fast"),
    "thorough": _preset("thorough"),
    "paper": Setting(CounterfactualConfig(sampler="paper")),
    # edits only at candidate pairs, as in graphs of thousands of nodes; node tasks ignore it
    "candidates": Setting(CounterfactualConfig(candidates=CandidateConfig(above_nodes=8))),
    "constraints": Setting(
        CounterfactualConfig(alternatives=1),
        EditRules(max_edits=4, remove=False, frozen_nodes=frozenset({1}), keep_connected=True),
    ),
}
_CLASS_SETTINGS = {
    "guided": ClassConfig(0, nodes=6, chains=4, candidates=6, steps=6),
    "paper": ClassConfig(0, nodes=6, chains=4, candidates=6, steps=6, sampler="paper"),
}
CLASS_SAMPLERS = tuple(_CLASS_SETTINGS)


def missing_data(name: str) -> str | None:
    """The reason why the data set cannot be read, or None."""
    file = data_folder() / FILES[name]
    return None if file.is_file() else f"{file} does not exist; set D4_DATA to its folder"


class GoldenData:
    """One benchmark data set. An id is a position in the test part, or a node's number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: Task = load_task(name)

    def test_ids(self) -> list[int]:
        """The ids that may be explained."""
        if self.task.whole is not None:
            return [int(node) for node in self.task.whole.data.test.tolist()]
        return list(range(len(self.task.test.graphs)))

    def label_of(self, identity: int) -> int:
        if self.task.whole is not None:
            return int(self.task.whole.data.labels[identity])
        return int(self.task.test.labels[identity])

    def node_instance(self, identity: int, spec: GnnSpec) -> NodeInstance | None:
        if self.task.whole is None:
            return None
        graph = self.task.whole.data.graph
        return instance(graph, identity, spec.convolutions, receptive_field=spec.receptive_field)

    def graph(self, identity: int, spec: GnnSpec) -> Graph:
        part = self.node_instance(identity, spec)
        return self.task.test.graphs[identity] if part is None else part.graph

    def class_graphs(self, label: int) -> tuple[list[Graph], list[bool]]:
        """Graphs of the class by label and as many others, and which are of the class."""
        train = self.task.train
        own, others = (
            (train.labels == label).nonzero()[:, 0].tolist()[:_CLASS_REFERENCE],
            (train.labels != label).nonzero()[:, 0].tolist()[:_CLASS_REFERENCE],
        )
        graphs = [train.graphs[position] for position in own + others]
        return graphs, [True] * len(own) + [False] * len(others)


class GoldenEngine:
    """The stored GNN and denoisers of one data set, ready to explain."""

    def __init__(self, data: GoldenData, folder: Path) -> None:
        self._data = data
        self._gnn = _load_gnn(folder)
        self._denoiser = _load_denoiser(folder / "denoiser.safetensors")
        self._class_denoiser = _load_denoiser(folder / "class_denoiser.safetensors")

    def node_count(self, identity: int) -> int:
        return self._data.graph(identity, self._gnn.spec).node_count

    def fingerprint(self, identity: int) -> str:
        """Hash of the input graph; it differs if the data or their reader differ."""
        graph = self._data.graph(identity, self._gnn.spec)
        content = hashlib.sha256()
        content.update(repr(graph.features.tolist()).encode())
        content.update(repr([graph.edges.tolist(), graph.target]).encode())
        return content.hexdigest()[:16]

    def counterfactual(self, identity: int, setting: str, seed: int) -> Document:
        chosen = SETTINGS[setting]
        graph = self._data.graph(identity, self._gnn.spec)
        part = self._data.node_instance(identity, self._gnn.spec)
        if part is None:
            outcome = explain(
                self._gnn,
                self._denoiser,
                graph,
                chosen.rules,
                chosen.config,
                seed=seed,
                device=CPU,
            )
        else:
            assert self._data.task.whole is not None
            outcome = explain_node(
                self._gnn,
                self._denoiser,
                part,
                chosen.rules,
                chosen.config,
                whole=self._data.task.whole.data.graph,
                seed=seed,
                device=CPU,
            )
        return _outcome_document(graph, outcome)

    def class_explanation(self, sampler: str, seed: int) -> list[Document]:
        """Of class 0 of graph classifiers, of class 1 (the motif) of node classifiers."""
        label = 0 if self._data.task.whole is None else 1
        config = replace(_CLASS_SETTINGS[sampler], target_class=label)
        found = explain_class(
            self._gnn,
            self._class_denoiser,
            *self._data.class_graphs(label),
            config,
            seed=seed,
            device=CPU,
        )
        return [_class_document(one) for one in found.patterns]


def _outcome_document(graph: Graph, outcome: CounterfactualOutcome) -> Document:
    """All numbers of an outcome except its seconds; texts may be reworded."""
    before = outcome.probabilities
    miss = outcome.closest_miss
    return {
        "found": bool(outcome.found),
        "predicted": int(before.argmax()),
        "probabilities": before.tolist(),
        "counterfactuals": [_found_document(graph, before, one) for one in outcome.found],
        "closest_miss": None if miss is None else _found_document(graph, before, miss),
        "gnn_evaluations": outcome.gnn_evaluations,
        "gnn_gradients": outcome.gnn_gradients,
        "samples": outcome.samples,
        "depth": outcome.depth,
        "candidates": outcome.candidates,
    }


def _found_document(graph: Graph, before: torch.Tensor, found: FoundCounterfactual) -> Document:
    return {
        "edits": [
            {
                "pair": [edit.source, edit.target],
                "added": edit.added,
                "plausibility": edit.plausibility,
                "by_denoiser": edit.by_denoiser,
            }
            for edit in found.edits
        ],
        "predicted": int(found.probabilities.argmax()),
        "probabilities": found.probabilities.tolist(),
        "fidelity": fidelity(before, found.probabilities),
        "modification_ratio": modification_ratio(graph, found.graph),
        "likelihood": found.likelihood,
        "connected": found.connected,
        "by_denoiser": found.by_denoiser,
    }


def _class_document(found: ClassPattern) -> Document:
    return {
        "edges": found.graph.edges.T.tolist(),
        "features": found.graph.features.tolist(),
        "target": found.graph.target,
        "predicted": int(found.probabilities.argmax()),
        "probabilities": found.probabilities.tolist(),
        "likelihood": found.likelihood,
        "connected": found.connected,
        "support": [found.evidence.class_support, found.evidence.other_support],
        "effect": found.evidence.effect.mean,
        "occurrences": len(found.evidence.occurrences),
    }


def _load_gnn(folder: Path) -> Gnn:
    document = json.loads((folder / "spec.json").read_text())
    gnn = Gnn(spec_from_document(stored_spec(document)))
    gnn.load_state_dict(load_file(folder / "weights.safetensors"))
    return gnn.eval().requires_grad_(False)


def _load_denoiser(file: Path) -> EdgeDenoiser:
    with safe_open(file, framework="pt") as opened:
        shape = json.loads(opened.metadata()["shape"])
    return load_denoiser(shape, load_file(file)).requires_grad_(False)


# Training: `generate` alone needs it.

_GRAPHS = {"ba3motif": 1200, "mutagenicity": 1600}  # that the GNN is trained on
_EPOCHS = {"ba3motif": 20, "mutagenicity": 25, "tree_cycle": 400}
_REFERENCE = 1200  # graphs that a denoiser is trained on: enough held out to calibrate its pool


def train_all(data: GoldenData, folder: Path, seed: int) -> None:
    """Trains and writes the GNN and both denoisers."""
    gnn = _trained_gnn(data, seed)
    export(gnn, folder)
    graphs = data.task.train.graphs[:_REFERENCE]
    recipes = {
        "denoiser": recipe_for(Objective.COUNTERFACTUAL, steps=240, hidden=16, blocks=3),
        "class_denoiser": recipe_for(Objective.CLASS, steps=160, hidden=12, blocks=2),
    }
    for name, recipe in recipes.items():
        _train_denoiser(graphs, gnn, recipe, folder / f"{name}.safetensors", seed)


def _trained_gnn(data: GoldenData, seed: int) -> Gnn:
    task = data.task
    # no time limit: it would make the result depend on the machine's load
    training = Training(epochs=_EPOCHS[data.name], seconds=math.inf)
    if task.whole is not None:
        training = replace(training, learning_rate=1e-2, weight_decay=1e-4)
        spec = GnnSpec(task.features, task.classes, (*_blocks(GcnLayer(16)), LinearLayer(2)))
        return train_node_classifier(spec, task.whole.data, training, seed, lambda report: None).gnn
    ending = (PoolLayer("mean"), LinearLayer(16), ActivationLayer("relu"))
    layers = (*_blocks(GinLayer(16, 16)), *ending, LinearLayer(task.classes))
    count = _GRAPHS[data.name]
    labelled = LabelledGraphs(task.train.graphs[:count], task.train.labels[:count])
    validation = LabelledGraphs(task.validation.graphs, task.validation.labels)
    spec = GnnSpec(task.features, task.classes, layers)
    return train(spec, labelled, training, seed, lambda report: None, validation=validation).gnn


def _blocks(convolution: Layer) -> tuple[Layer, ...]:
    block = (convolution, BatchNormLayer(), ActivationLayer("relu"), KeepLayer())
    return (*block, *block, *block, JumpLayer("cat"))


def _train_denoiser(graphs: list[Graph], gnn: Gnn, recipe: Recipe, file: Path, seed: int) -> None:
    trainer = Trainer(graphs, gnn, recipe, seed=seed, device=CPU)
    for _ in trainer.run():
        pass
    denoiser = trainer.denoiser()
    shape = json.dumps(denoiser.shape_document(), sort_keys=True)
    save_file(dict(denoiser.state_dict()), file, metadata={"shape": shape})
