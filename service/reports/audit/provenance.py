"""The sections about what was evaluated, how, its limits, its receipt and how long it is kept."""

from __future__ import annotations

from d4explain.contracts.evaluations.requests import METRICS, EvaluationRequest
from service.reports.audit.document import (
    Block,
    Bullets,
    Paragraph,
    Section,
    SignOff,
    Table,
    minute,
)
from service.reports.audit.subject import PURPOSE_KEY, Subject
from service.reports.letters import percent, sentence
from store.database.tables import Dataset


def purpose_and_data(subject: Subject) -> Section:
    purpose = subject.purpose
    if purpose.text is None:
        text = (
            "Nobody stated what the GNN is for. Whoever asks for this report can state it "
            f"(purpose), or note it in the metadata {PURPOSE_KEY} of evaluation or GNN."
        )
    else:
        text = f"{purpose.text} (Stated {purpose.source}; nobody checked it.)"
    blocks: list[Block] = [Paragraph(text=text)]
    described = None if subject.gnn is None else subject.gnn.description
    if described:
        blocks.append(Paragraph(text=f"Description of the GNN: {described}"))
    blocks += [_gnn_table(subject), _data_table(subject)]
    return Section(title="Intended purpose, GNN and data", blocks=blocks)


def not_searched(request: EvaluationRequest) -> Table:
    """The constraints, and what lies outside them."""
    limits = request.constraints
    most = f"at most {percent(limits.max_ratio)} as many edits as the graph has edges"
    if limits.max_edits is not None:
        most += f", and at most {limits.max_edits} edits"
    actions = {
        "both": "edges are added and removed",
        "add": "edges are only added; removing edges was not searched",
        "remove": "edges are only removed; adding edges was not searched",
    }[limits.actions]
    connected = (
        "the graph stays in one piece; other changes were not searched"
        if limits.keep_connected
        else "a change may cut the graph into pieces"
    )
    rows = [
        ["number of edits", most],
        ["kind of edits", actions],
        ["connected", connected],
        ["node features", "not changed, so changes of them were not searched"],
        ["nodes", "not added or removed"],
        ["attributes of kept edges", "not changed"],
        [
            "combinations of edits",
            "not all are tried: where no change was found, there may be one",
        ],
        ["aim", _AIMS[request.aim]],
    ]
    return Table(title="Constraints, and what was not searched", header=["", ""], rows=rows)


_AIMS = {
    "minimal": "the fewest edits; such changes need not look like real graphs",
    "believable": "changes that look like the reference set; a smaller one may exist",
    "both": "the first answer of the explainer, believable if there is one",
}


def methods_and_limits(subject: Subject) -> Section:
    request, result = subject.request, subject.result
    missing = [name for name in METRICS if name not in result.metrics]
    methods = [
        f"Explainers: {', '.join(request.explainers)}; preset {request.preset}, seed "
        f"{request.seed}. Each answer was classified by the GNN itself.",
        "Intervals are 95 %: percentiles of 2,000 bootstrap samples of the instances, or Wilson's "
        "where it says so. They are about which graphs were drawn, not about training the GNN "
        "again. Where all instances agree, shares "
        "have Wilson's interval; another interval of width 0 is no certainty either.",
        f"Robustness: 20 noisy copies with 5 % of the edges toggled. Stability: "
        f"{request.stability_seeds} further seeds."
        if {"robustness", "stability"} & set(result.metrics)
        else "Robustness to noise and stability over seeds were not measured.",
        f"Not measured: {', '.join(missing)}." if missing else "All metrics were measured.",
    ]
    limits = [
        "A change says what would alter the GNN's output. It is no advice on what to change in the "
        "world, and it names no cause outside the GNN.",
        "The figures are about these test graphs. Graphs of another origin may behave differently.",
        *subject.warnings,
    ]
    if result.test.part == "held_out":
        limits.append(
            "The test graphs are a part of the reference set that no training of this service saw. "
            "What the GNN was trained on is not known."
        )
    return Section(
        title="Methods and known limits",
        blocks=[
            Bullets(items=methods),
            Paragraph(text="Known limits:"),
            Bullets(items=limits),
        ],
    )


def sign_off() -> Section:
    return Section(
        title="Sign-off",
        blocks=[
            Paragraph(text="To be filled in by a person. Nobody has signed this report yet."),
            SignOff(fields=["Name", "Role", "Decision and conditions", "Date", "Signature"]),
        ],
    )


def receipt(subject: Subject) -> Section:
    result = subject.result
    recorded = result.receipt
    rows = [
        ["evaluation", subject.evaluation],
        ["figures of the evaluation, SHA-256", subject.result_sha256],
        ["rows without their times, SHA-256", result.rows_sha256],
        ["request, SHA-256", recorded.request_sha256],
        ["GNN, SHA-256", recorded.gnn_sha256],
        ["reference set, SHA-256", recorded.dataset_sha256],
        ["denoiser, SHA-256", recorded.denoiser_sha256 or "none was used"],
        ["witnesses, SHA-256", recorded.witnesses_sha256 or "none were used"],
        *(["judge " + judge, sha256] for judge, sha256 in sorted(recorded.judges.items())),
        ["seed", str(recorded.seed)],
        ["device", recorded.device],
        ["versions", ", ".join(f"{n} {v}" for n, v in sorted(recorded.versions.items()))],
    ]
    if recorded.environment is not None:
        environment = recorded.environment
        cpu = f"{environment.cpu}, torch {environment.torch}, {environment.threads} threads"
        rows.insert(-1, ["processor", cpu])
    return Section(
        title="Receipt and replay",
        blocks=[
            Table(title="Receipt", header=["", ""], rows=rows),
            Paragraph(text=_replay(subject)),
        ],
    )


def retention(subject: Subject) -> Section:
    keeping = subject.keeping
    if keeping.deleted_after is None:
        text = "No retention time is set: the evaluation is kept until somebody deletes it."
    else:
        text = (
            f"The evaluation and its rows are deleted {keeping.days:g} days after the request, "
            f"about {minute(keeping.deleted_after)}."
        )
    if keeping.hold_reason is not None:
        text += f" It is on hold, so it cannot be deleted: {sentence(keeping.hold_reason)}"
    files = (
        "This file is a copy. It stays until whoever has it deletes it. The audit log keeps the "
        "SHA-256 of the figures also after their deletion."
    )
    return Section(
        title="How long it is kept", blocks=[Paragraph(text=text), Paragraph(text=files)]
    )


def _replay(subject: Subject) -> str:
    if not subject.repeats:
        return (
            "Not replayed: nobody evaluated the same request again. To do so, post it once more; "
            "the rows must have the same SHA-256 on the same processor and versions."
        )
    same = [one.evaluation for one in subject.repeats if one.same_rows]
    other = [one.evaluation for one in subject.repeats if not one.same_rows]
    said = []
    if same:
        said.append(f"Repeated by {', '.join(same)}: the rows have the same SHA-256.")
    if other:
        said.append(
            f"Repeated by {', '.join(other)}: the rows have another SHA-256. Another processor, "
            "other versions or newly trained networks explain this; a changed row does, too."
        )
    return " ".join(said)


def _gnn_table(subject: Subject) -> Table:
    gnn, sha256 = subject.gnn, subject.result.receipt.gnn_sha256
    rows = [["id", subject.gnn_id], ["SHA-256 of spec and weights", sha256]]
    if gnn is None:
        rows.append(["name", "deleted since the evaluation"])
    else:
        rows.insert(0, ["name and version", f"{gnn.name}, version {gnn.version}"])
    return Table(title="GNN", header=["", ""], rows=rows)


def _data_table(subject: Subject) -> Table:
    test = subject.result.test
    part = "the whole set"
    if test.part == "held_out":
        part = f"a held-out part ({percent(test.held_out_share or 0)}) of the set"
    drawn = len(subject.request.positions)
    chosen = "all of them" if drawn == test.graph_count else f"{drawn}, drawn by the seed"
    return Table(
        title="Data",
        header=["", "name", "id", "SHA-256", "graphs"],
        rows=[
            [
                "reference set",
                _set_name(subject.reference),
                subject.reference_id,
                subject.result.receipt.dataset_sha256,
                "" if subject.reference is None else str(subject.reference.graph_count),
            ],
            [
                f"test set: {part}",
                _set_name(subject.test_set),
                test.dataset,
                test.sha256,
                f"{test.graph_count}; evaluated: {chosen}",
            ],
        ],
    )


def _set_name(dataset: Dataset | None) -> str:
    if dataset is None:
        return "deleted since"
    return f"{dataset.name}, version {dataset.version}"
