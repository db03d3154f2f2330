"""Options of `d4explain explain`: the fields of the request, whose defaults the API has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from d4explain.contracts.job_states import Stage
from d4explain.contracts.requests import Aim, Explainer, Preset

_ANSWERS, _EDITS, _SEARCH = "Answers", "Constraints on the edits", "Search"
_CLASSES, _OUTPUT = "Classes", "Waiting and output"


def _option(panel: str, *flags: str, default: object = None, **settings: Any) -> Any:
    """An option; `default` is the value that the API takes if the option is not given."""
    shown = False if default is None else str(default)
    return typer.Option(*flags, rich_help_panel=panel, show_default=shown, **settings)


GraphFile = Annotated[
    Path | None,
    typer.Argument(
        help="A graph, a list of graphs, {graph: …} or {graphs: […]}; - is stdin.",
        show_default=False,
    ),
]
DatasetOrName = Annotated[
    str | None,
    typer.Option(
        help="The reference set: its id, name@version, or name for the newest.",
        show_default="the name of the GNN",
    ),
]
SmilesTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--smiles",
        help="A molecule, if the GNN has a featuriser; may be repeated.",
        show_default=False,
    ),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        help="Node to explain, if the GNN classifies nodes; may be repeated. Without a GRAPH, "
        "the number of a node in the large graph DATASET.",
        show_default=False,
    ),
]
TargetClass = Annotated[
    str | None,
    typer.Option(
        "--class",
        help="Class to reach or, without a GRAPH, to explain: its name, or its number if no class "
        "has this name.",
        show_default=False,
    ),
]

# Answers.
AimOption = Annotated[
    Aim | None,
    _option(
        _ANSWERS,
        "--aim",
        help="believable: also convinces other networks and looks like the data, the default; "
        "minimal: fewest edits, the default of d4-paper; both: both lists.",
    ),
]
Judges = Annotated[
    list[str] | None,
    _option(
        _ANSWERS,
        "--judge",
        help="A registered GNN that judges the answers besides the witnesses, or none for no "
        "judges; may be repeated. --aim minimal --judge none trains no witnesses.",
    ),
]
Alternatives = Annotated[
    int | None,
    _option(_ANSWERS, "--alternatives", default=3, help="Answers per graph, 1 to 16."),
]

# Constraints on the edits.
MaxEdits = Annotated[
    int | None, _option(_EDITS, "--max-edits", help="Largest number of edits, 1 to 64.")
]
MaxRatio = Annotated[
    float | None,
    _option(_EDITS, "--max-ratio", default=0.3, help="Largest ratio of edits to edges."),
]
Actions = Annotated[
    Literal["both", "add", "remove"] | None,
    _option(_EDITS, "--actions", default="both", help="Which edits are allowed."),
]
KeepConnected = Annotated[
    bool, _option(_EDITS, "--keep-connected", help="The edited graph stays connected.")
]
ValidMolecule = Annotated[
    bool, _option(_EDITS, "--valid-molecule", help="Only edits that keep all valences valid.")
]
AllowUnseen = Annotated[
    bool,
    _option(
        _EDITS, "--allow-unseen", help="Believable answers may have patterns that the data lacks."
    ),
]
FrozenNodes = Annotated[
    list[str] | None,
    _option(_EDITS, "--frozen-node", help="Node that no edit touches; may be repeated."),
]
FrozenEdges = Annotated[
    list[str] | None,
    _option(
        _EDITS,
        "--frozen-edge",
        metavar="A:B",
        help="Pair of nodes that stays as it is; may be repeated.",
    ),
]
ConstraintsFile = Annotated[
    Path | None,
    _option(
        _EDITS,
        "--constraints",
        help="JSON file with `constraints` as the API takes them, for example frozen_nodes of "
        "several graphs. The options above come first.",
    ),
]

# Search.
ExplainerOption = Annotated[
    Explainer | None,
    _option(
        _SEARCH,
        "--explainer",
        default="d4",
        help="The method: d4 trains a denoiser first; search needs none, but gives no "
        "likelihoods and explains no classes; d4-paper is the method of the paper; the others are "
        "explainers of the literature and plain searches.",
    ),
]
PresetOption = Annotated[
    Preset | None, _option(_SEARCH, "--preset", default="balanced", help="How much to search.")
]
Seed = Annotated[int | None, _option(_SEARCH, "--seed", default=0, help="Seed of the search.")]
TimeBudget = Annotated[
    float | None, _option(_SEARCH, "--time-budget", help="Seconds for the job, 3600 at most.")
]
MaxQueries = Annotated[
    int | None,
    _option(_SEARCH, "--max-queries", help="Largest number of graphs sent to a black box."),
]
DenoiserSettings = Annotated[
    list[str] | None,
    _option(
        _SEARCH,
        "--denoiser",
        metavar="ID|KEY=VALUE",
        help="A denoiser's id, or how to train one: recipe, steps, hidden, blocks, alpha or seed; "
        "may be repeated.",
    ),
]

# Classes.
NodeCount = Annotated[
    int | None, _option(_CLASSES, "--node-count", help="Nodes of each pattern; otherwise 3 to 7.")
]
ExampleCount = Annotated[
    int | None, _option(_CLASSES, "--example-count", default=8, help="Patterns at most.")
]
Candidates = Annotated[
    int | None,
    _option(_CLASSES, "--candidates", help="Graphs to choose from at each step of a chain."),
]
Steps = Annotated[int | None, _option(_CLASSES, "--steps", help="Denoising steps per chain.")]
Regularisers = Annotated[
    list[str] | None,
    _option(
        _CLASSES,
        "--regulariser",
        metavar="NAME=WEIGHT",
        help="likelihood, connectivity, valence, recurrence, sparsity or size; may be repeated.",
    ),
]

# Waiting and output.
DryRun = Annotated[
    bool, _option(_OUTPUT, "--dry-run", help="Only estimate the cost; not for patterns of classes.")
]
WaitFor = Annotated[
    Stage,
    typer.Option(
        rich_help_panel=_OUTPUT,
        help="provisional: return with the answer of a search if networks have to be trained "
        "first; final: show that answer, too, but wait for the final one.",
    ),
]
Svg = Annotated[Path | None, _option(_OUTPUT, "--svg", help="Draw the answer to this file.")]
