"""Finds the graphs that a model reads, and draws random ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import Sequential

from d4explain.errors import CommandError
from d4explain.export.model_runners import (
    EdgeArgument,
    InputForm,
    ModelInputs,
    ModelRunner,
    model_inputs,
    optional_arguments,
    required_arguments,
)
from d4explain.export.tracing.failures import failing_step
from d4explain.export.translators.layers import translate
from d4explain.export.translators.translation import Translation, UnsupportedLayerError
from d4explain.gnn.graphs import Graph, to_sparse

SAMPLE_GRAPHS = 24


def sample_graphs(
    form: InputForm,
    counts: Mapping[int, int] | None = None,
    edge_counts: Mapping[int, int] | None = None,
    *,
    number: int = SAMPLE_GRAPHS,
    seed: int = 0,
) -> list[Graph]:
    """Random graphs of 1 to 24 nodes, sparse to dense, some with isolated nodes.

    `counts` are columns of whole numbers below a count; the other columns are real numbers. Edge
    attributes are not negative, because they may be weights.
    """
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for index in range(number):
        size = 1 + index % SAMPLE_GRAPHS
        density = torch.rand((), generator=rng)
        pairs = torch.triu(torch.rand(size, size, generator=rng) < density, diagonal=1)
        edges = pairs.nonzero().T.contiguous()
        features = _columns(size, form.features, counts or {}, rng, whole=form.integer_features)
        attributes = None
        if form.edge_features:
            attributes = _columns(
                edges.shape[1],
                form.edge_features,
                edge_counts or {},
                rng,
                whole=form.integer_edges,
            )
            attributes = attributes.abs()
        graphs.append(Graph(features, edges, edge_attributes=attributes))
    return graphs


def _columns(
    rows: int, width: int, counts: Mapping[int, int], rng: torch.Generator, *, whole: bool
) -> Tensor:
    """Random rows; `whole` draws 0 and 1 for columns without a count."""
    if whole:
        values = torch.randint(2, (rows, width), generator=rng).float()
    else:
        values = torch.randn(rows, width, generator=rng)
    for column, count in counts.items():
        values[:, column] = torch.randint(count, (rows,), generator=rng).float()
    return values


def find_form(model: nn.Module, run: ModelRunner, features: int | None = None) -> InputForm:
    """The first form of input that the model runs on; widths come from its own layers."""
    first_failure: str | None = None
    for form in _candidate_forms(model, features):
        graphs = sample_graphs(form, *_whole_columns(model, form), number=6)
        inputs = model_inputs(to_sparse(graphs), form, model)
        if _runs(run, inputs):
            return form
        first_failure = first_failure or failing_step(model, run, inputs)
    if first_failure is None:
        raise CommandError(
            "no layer of the model tells how many features a node has",
            hint="say it: --features 7, export(…, features=7)",
        )
    raise CommandError(
        f"the model fails on sample graphs: {first_failure}",
        hint="if nodes have another number of features, say it: --features 7",
    )


def _runs(run: ModelRunner, inputs: ModelInputs) -> bool:
    try:
        with torch.no_grad():
            run(inputs)
    except CommandError:
        raise
    except Exception:  # the user's code may fail in any way
        return False
    return True


def _candidate_forms(model: nn.Module, features: int | None) -> Iterator[InputForm]:
    widths = _input_widths(model)
    tables = [one for one in model.modules() if isinstance(one, nn.Embedding)]
    table_widths = _table_widths(model)
    node_widths = (
        [features] if features is not None else [*widths, *(table_widths if tables else [])]
    )
    kinds = [(False, False)] + ([(True, False), (True, True)] if tables else [])
    for (argument, edge_width), (integers, casts), width in product(
        _edge_candidates(model, widths, table_widths), kinds, dict.fromkeys(node_widths)
    ):
        edge_kinds = (False, True) if tables and argument == "edge_attr" else (False,)
        for integer_edges in edge_kinds:
            yield InputForm(width, edge_width, argument, integers, integer_edges, casts)


def _edge_candidates(
    model: nn.Module, widths: Sequence[int], table_widths: Sequence[int]
) -> list[tuple[EdgeArgument | None, int]]:
    """How the model may take edge attributes, and how many; widths of its layers first."""
    required, optional = required_arguments(model), optional_arguments(model)
    if isinstance(model, Sequential):
        required = list(model.signature.param_dict)
    takes_batch = not required
    read = [one.edge_width for one in _translations(model) if one.edge_width is not None]
    candidates: list[tuple[EdgeArgument | None, int]] = []
    if "edge_attr" in (*required, *optional) or takes_batch:
        candidates += [("edge_attr", width) for width in dict.fromkeys(read)]
    if "edge_weight" in required:
        return [("edge_weight", 1)]
    if "edge_attr" in required:
        return [*candidates, *(("edge_attr", w) for w in (*table_widths, *widths, 1))]
    candidates.append((None, 0))
    if takes_batch:
        candidates += [("edge_attr", width) for width in (*table_widths, *widths)]
    return candidates


def _table_widths(model: nn.Module) -> list[int]:
    """How many columns the model may embed: one per table of a list, or one."""
    lists = [one for one in model.modules() if isinstance(one, nn.ModuleList)]
    sizes = {len(one) for one in lists if all(isinstance(t, nn.Embedding) for t in one)}
    return sorted(sizes | {1}, reverse=True)


def _input_widths(model: nn.Module) -> list[int]:
    """Input widths of all layers, in order of definition, each once."""
    known = [one.input_width for one in _translations(model)]
    return list(dict.fromkeys(width for width in known if width is not None))


def _translations(model: nn.Module) -> Iterator[Translation]:
    for module in model.modules():
        try:
            yield translate(module)
        except UnsupportedLayerError:
            width = getattr(module, "in_channels", getattr(module, "in_features", None))
            if isinstance(width, int) and width > 0:
                edge_width = getattr(module, "edge_dim", None)
                yield Translation(None, input_width=width, edge_width=edge_width)


def _whole_columns(model: nn.Module, form: InputForm) -> tuple[dict[int, int], dict[int, int]]:
    """Whole numbers that fit every embedding of the model, for all columns that may need them."""
    tables = [one.num_embeddings for one in model.modules() if isinstance(one, nn.Embedding)]
    count = min(tables, default=1)
    return (
        dict.fromkeys(range(form.features), count) if form.integer_features else {},
        dict.fromkeys(range(form.edge_features), count) if form.integer_edges else {},
    )


def graphs_to_trace(model: nn.Module, form: InputForm, batch: int) -> list[Graph]:
    """Batch 1 or 2; they have different numbers of nodes and graphs."""
    return sample_graphs(form, *_whole_columns(model, form), number=7 + batch, seed=batch)[2:]


def form_of_samples(samples: Sequence[Data]) -> tuple[InputForm, list[Graph]]:
    """The form of graphs that the user's samples have, and these samples."""
    first = samples[0]
    attributes, weights = _attribute(first, "edge_attr"), _attribute(first, "edge_weight")
    argument: EdgeArgument | None = None
    if attributes is not None:
        argument = "edge_attr"
    elif weights is not None:
        argument = "edge_weight"
    edges = attributes if attributes is not None else weights
    form = InputForm(
        features=_two_dimensional(first.x).shape[1],
        edge_features=0 if edges is None else _two_dimensional(edges).shape[1],
        edge_argument=argument,
        integer_features=not first.x.is_floating_point(),
        integer_edges=edges is not None and not edges.is_floating_point(),
    )
    return form, [_graph(sample, argument) for sample in samples]


def _graph(sample: Data, argument: EdgeArgument | None) -> Graph:
    source, target = sample.edge_index
    forward = source < target
    both = {*map(tuple, sample.edge_index.T.tolist())}
    if bool((source == target).any()) or any((b, a) not in both for a, b in both):
        raise CommandError("a sample graph is directed or has self-loops; graphs are undirected")
    edges = sample.edge_index[:, forward]
    attributes = None
    if argument is not None:
        attributes = _two_dimensional(_attribute(sample, argument))[forward].float()
    return Graph(_two_dimensional(sample.x).float(), edges, edge_attributes=attributes)


def _attribute(sample: Data, name: str) -> Any:
    return getattr(sample, name, None)


def _two_dimensional(values: Tensor) -> Tensor:
    return values[:, None] if values.dim() == 1 else values
