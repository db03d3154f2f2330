"""Versions, aliases, tags, samples and feature schemas of GNNs, over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
import torch

from d4explain.contracts.gnn_files.gnn_archive import SAMPLES, SPEC, WEIGHTS, write_archive
from service.graph_io.features.gnn_features import check_column_rules
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library


def registered(api, name="motifs", *, ready=True, **parts):
    """Registers a version; with `ready`, its probe has passed."""
    form = {
        "name": (None, name),
        "spec": (None, api.spec().model_dump_json()),
        "weights": ("w", api.weights()),
        **parts,
    }
    answer = api.client.post("/v1/gnns", files=form, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    gnn = answer.json()
    if ready:
        api.finish(gnn["job_id"])
    return gnn


def get(api, reference):
    return api.client.get(f"/v1/gnns/{reference}")


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


# Versions


def test_registering_a_name_again_creates_the_next_version(api):
    first, second = registered(api), registered(api)
    other = registered(api, "others")
    assert [gnn["version"] for gnn in (first, second, other)] == [1, 2, 1]
    assert first["sha256"] == second["sha256"]

    listed = api.client.get("/v1/gnns", params={"name": "motifs"}).json()["items"]
    assert [gnn["id"] for gnn in listed] == [second["id"], first["id"]]
    assert api.client.get("/v1/gnns?name=nobody").json()["items"] == []


def test_lists_by_name_have_page_links(api):
    ids = [registered(api, ready=False)["id"] for _ in range(3)]
    registered(api, "others", ready=False)
    page = api.client.get("/v1/gnns?name=motifs&limit=2")
    following = page.headers["link"].split(">")[0].removeprefix("<")
    found = [*page.json()["items"], *api.client.get(following).json()["items"]]
    assert [gnn["id"] for gnn in found] == ids[::-1]


def test_version_numbers_are_never_reused(api):
    registered(api)
    second = registered(api)
    assert api.client.delete(f"/v1/gnns/{second['id']}").status_code == 204
    assert registered(api)["version"] == 3
    detail = problem(get(api, "motifs@2"), 404)["detail"]
    assert detail == "The gnn 'motifs' has no version 2; its newest: 3, 1"


def test_a_name_refers_to_its_newest_ready_version(api):
    first = registered(api, ready=False)
    assert get(api, "motifs").json()["id"] == first["id"]  # none is ready: the newest
    api.finish(first["job_id"])
    second = registered(api)
    rejected = registered(api, ready=False)
    api.finish(rejected["job_id"], "constant")
    registered(api, ready=False)
    assert get(api, "motifs").json()["id"] == second["id"]
    assert get(api, "motifs@1").json()["id"] == first["id"]
    assert get(api, "motifs@3").json()["state"] == "rejected"


@pytest.mark.parametrize("name", ["a@b", "a/b", "gnn_1", "set_1", ".", "..", "@"])
def test_ambiguous_names_are_rejected(api, name):
    form = {
        "name": (None, name),
        "spec": (None, api.spec().model_dump_json()),
        "weights": ("w", api.weights()),
    }
    (error,) = problem(api.client.post("/v1/gnns", files=form), 422)["errors"]
    assert error["pointer"] == "/name"
    assert "should" in error["detail"]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("nobody", "there is no gnn called 'nobody'"),
        ("nobody@1", "there is no gnn called 'nobody'"),
        ("motifs@9", "the gnn 'motifs' has no version 9; its newest: 1"),
        ("motifs@prod", "the gnn 'motifs' has no alias 'prod'; it has beta"),
        ("motifs@0", "there is no gnn"),
        ("motifs@99999999999999999999", "there is no gnn"),
        ("motifs@", "there is no gnn"),
        ("@1", "there is no gnn"),
        ("%00", "there is no gnn"),
        ("gnn_00000000000000000000", "there is no gnn"),
    ],
)
def test_unknown_references_get_the_known_ones(shared_api, reference, expected):
    if not shared_api.client.get("/v1/gnns?name=motifs").json()["items"]:
        registered(shared_api)
        shared_api.client.put("/v1/gnns/motifs/aliases/beta", json={"version": 1})
    detail = problem(get(shared_api, reference), 404)["detail"]
    assert expected.lower() in detail.lower()


# Aliases


def test_an_alias_can_be_set_moved_and_removed(api):
    first, second = registered(api), registered(api)
    at = "/v1/gnns/motifs/aliases/production"
    given = api.client.put(at, json={"version": 1})
    assert given.status_code == 200, given.text
    assert (given.json()["id"], given.json()["aliases"]) == (first["id"], ["production"])
    assert get(api, "motifs@production").json()["id"] == first["id"]

    assert api.client.put(at, json={"gnn": second["id"]}).json()["aliases"] == ["production"]
    assert get(api, "motifs@production").json()["id"] == second["id"]
    assert get(api, first["id"]).json()["aliases"] == []
    again = api.client.put("/v1/gnns/motifs/aliases/beta", json={"gnn": "motifs@production"})
    assert again.json()["aliases"] == ["beta", "production"]

    assert api.client.delete(at).status_code == 204
    assert api.client.delete(at).status_code == 404
    assert get(api, "motifs@production").status_code == 404
    assert get(api, second["id"]).json()["aliases"] == ["beta"]


@pytest.fixture(scope="module")
def two_names(shared_api):
    """A name with a ready and a probing version, and another name."""
    registered(shared_api, "a name")
    registered(shared_api, "a name", ready=False)
    registered(shared_api, "another name")
    return shared_api


@pytest.mark.parametrize(
    ("alias", "body", "status", "pointer"),
    [
        ("production", {"version": 7}, 404, "/version"),
        ("production", {"version": 2}, 409, "/version"),  # still probing
        ("production", {"gnn": "another name@1"}, 422, "/gnn"),
        ("production", {}, 422, "/version"),
        ("production", {"version": 1, "gnn": "a name@1"}, 422, "/version"),
        ("production", {"version": 0}, 422, "/version"),
        ("production", {"version": True}, 422, "/version"),
        ("production", {"to": 1}, 422, "/to"),
        ("3", {"version": 1}, 422, "/alias"),
        ("Prod", {"version": 1}, 422, "/alias"),
        ("a" * 65, {"version": 1}, 422, "/alias"),
    ],
)
def test_bad_aliases_are_rejected(two_names, alias, body, status, pointer):
    before = two_names.written()
    answer = two_names.client.put(f"/v1/gnns/a name/aliases/{alias}", json=body)
    assert pointer in [error["pointer"] for error in problem(answer, status)["errors"]]
    assert two_names.written() == before


def test_unicode_names_work_in_paths(api):
    gnn = registered(api, "Mützen & <Löwen> 🦁?#%")
    quoted = "M%C3%BCtzen%20%26%20%3CL%C3%B6wen%3E%20%F0%9F%A6%81%3F%23%25"
    assert get(api, quoted).json()["id"] == gnn["id"]
    answer = api.client.put(f"/v1/gnns/{quoted}/aliases/beta", json={"version": 1})
    assert answer.json()["aliases"] == ["beta"]
    assert get(api, f"{quoted}@beta").json()["id"] == gnn["id"]


# References to GNNs


def test_requests_by_name_keep_their_gnn(api):
    first, second = registered(api), registered(api)
    at = "/v1/gnns/motifs/aliases/production"
    api.client.put(at, json={"version": 1})

    explanation = api.explanation(gnn="motifs@production")
    assert explanation["gnn"] == explanation["job"]["subject"]["gnn"] == first["id"]
    trained = api.client.post(
        "/v1/denoisers",
        json={"gnn": "motifs@1", "dataset": explanation["dataset"], "objective": "class"},
    ).json()
    assert trained["gnn"] == first["id"]
    predicted = api.client.post(
        "/v1/gnns/motifs/predictions",
        json={"graph": api.graph()},
        headers={"Prefer": "respond-async"},
    ).json()
    assert predicted["gnn"] == second["id"]

    api.client.put(at, json={"version": 2})
    assert api.client.get(f"/v1/explanations/{explanation['id']}").json()["gnn"] == first["id"]
    for noun, expected in (("explanations", explanation["id"]), ("denoisers", trained["id"])):
        found = api.client.get(f"/v1/{noun}?gnn=motifs@1").json()["items"]
        assert expected in [item["id"] for item in found]
        assert api.client.get(f"/v1/{noun}?gnn=motifs@production").json()["items"] == []
    jobs = api.client.get("/v1/jobs?gnn=motifs&kind=predict").json()["items"]
    assert [job["id"] for job in jobs] == [predicted["job"]["id"]]
    unknown = problem(api.client.get("/v1/jobs?gnn=nobody"), 422)["errors"]
    assert unknown == [{"parameter": "gnn", "detail": "there is no gnn called 'nobody'"}]


def test_an_alias_that_moves_during_the_check_changes_nothing(api, monkeypatch):
    """The alias moves after the request was read and before its job is written."""
    first, second = registered(api), registered(api)
    api.client.put("/v1/gnns/motifs/aliases/production", json={"version": 1})
    dataset = api.dataset()

    def meanwhile(*arguments):
        api.client.put("/v1/gnns/motifs/aliases/production", json={"version": 2})
        return check_column_rules(*arguments)

    monkeypatch.setattr("service.submission.explanation_checks.check_column_rules", meanwhile)
    explanation = api.explanation(gnn="motifs@production", dataset=dataset)
    assert get(api, "motifs@production").json()["id"] == second["id"]
    assert explanation["gnn"] == explanation["job"]["subject"]["gnn"] == first["id"]


# Descriptions and tags


def test_descriptions_and_tags_are_stored_and_changed(api):
    registered(
        api,
        description=(None, "Two\nlines."),
        tags=(None, json.dumps({"data": "BA", "seed": "1"}), "application/json"),
    )
    gnn = get(api, "motifs").json()
    assert gnn["description"] == "Two\nlines."
    assert gnn["tags"] == {"data": "BA", "seed": "1"}

    patch = {"tags": {"seed": None, "stage": "beta", "data": "BA-2"}}
    changed = api.client.patch("/v1/gnns/motifs@1", json=patch)
    assert changed.status_code == 200, changed.text
    assert changed.json()["tags"] == {"data": "BA-2", "stage": "beta"}
    assert changed.json()["description"] == "Two\nlines."
    assert api.client.patch("/v1/gnns/motifs", json={"description": None}).json() == {
        **changed.json(),
        "description": None,
    }
    assert get(api, "motifs").json()["tags"] == {"data": "BA-2", "stage": "beta"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"tags": {"a b": "x"}}, "/tags/a b"),
        ({"tags": {"a": 1}}, "/tags/a"),
        ({"tags": {"a": "x" * 201}}, "/tags/a"),
        ({"tags": {"a": "\x00"}}, "/tags/a"),
        ({"tags": ["a"]}, "/tags"),
        ({"tags": {f"t{i}": "x" for i in range(33)}}, "/tags"),
        ({"description": "x" * 2001}, "/description"),
        ({"description": "\x07"}, "/description"),
        ({"name": "other"}, "/name"),
        ({"state": "ready"}, "/state"),
    ],
)
def test_bad_changes_are_rejected(shared_api, body, pointer):
    gnn = shared_api.gnn()
    answer = shared_api.client.patch(f"/v1/gnns/{gnn}", json=body)
    assert problem(answer, 422)["errors"][0]["pointer"] == pointer
    assert get(shared_api, gnn).json()["tags"] == {}


@pytest.mark.parametrize(
    ("part", "text", "pointer"),
    [
        ("tags", "{", "/tags"),
        ("tags", '{"a": 1}', "/tags/a"),
        ("tags", "[]", "/tags"),
        ("description", "\x00", "/description"),
    ],
)
def test_forms_with_bad_tags_or_descriptions_are_rejected(shared_api, part, text, pointer):
    form = {
        "name": (None, "n"),
        "spec": (None, shared_api.spec().model_dump_json()),
        "weights": ("w", shared_api.weights()),
        part: (None, text),
    }
    before = shared_api.written()
    answer = shared_api.client.post("/v1/gnns", files=form)
    assert problem(answer, 422)["errors"][0]["pointer"] == pointer
    assert shared_api.written() == before


# Deletion


def test_deleting_a_gnn_in_use_is_rejected_and_names_the_users(api):
    gnn = registered(api)
    explanation = api.explanation(gnn=gnn["id"])
    detail = problem(api.client.delete(f"/v1/gnns/{gnn['id']}"), 409)["detail"]
    training = explanation["job"]["waiting_for"]
    assert f"train job {training} of denoiser {explanation['denoiser']} (queued)" in detail
    assert f"counterfactual job {explanation['job']['id']} (queued)" in detail

    api.finish_explanation(explanation)
    assert api.client.delete("/v1/gnns/motifs@1").status_code == 204
    assert api.client.get(f"/v1/explanations/{explanation['id']}").json()["state"] == "succeeded"


def test_a_gnn_with_an_alias_or_by_name_only_is_not_deleted(api):
    gnn = registered(api)
    assert (
        f"{gnn['id']} or motifs@1" in problem(api.client.delete("/v1/gnns/motifs"), 422)["detail"]
    )
    api.client.put("/v1/gnns/motifs/aliases/production", json={"version": 1})
    problem(api.client.delete("/v1/gnns/motifs@production"), 422)
    detail = problem(api.client.delete("/v1/gnns/motifs@1"), 409)["detail"]
    assert f"GNN {gnn['id']} has the alias production" in detail
    api.client.delete("/v1/gnns/motifs/aliases/production")
    assert api.client.delete("/v1/gnns/motifs@1").status_code == 204


# Samples and archives


def graph(edges, label=None):
    """A path of four nodes that has only its first edges."""
    ends = [list(range(edges)), list(range(1, edges + 1))]
    return {"num_nodes": 4, "edge_index": ends, **({} if label is None else {"label": label})}


def edge_counting_weights(api):
    """A GCN that predicts class 1 for graphs of four nodes with at least two edges."""
    tensors = {
        name: np.zeros(tensor.shape, tensor.dtype)
        for name, tensor in safetensors.numpy.load(api.weights()).items()
    }
    tensors["layers.0.conv.lin.weight"][0, 0] = 1
    values = [float(value) for value in gcn_means()]
    border = (values[1] + values[2]) / 2
    sign = 1.0 if values[2] > values[1] else -1.0
    tensors["layers.2.linear.weight"][1, 0] = 100 * sign
    tensors["layers.2.linear.bias"][1] = -100 * sign * border
    return bytes(safetensors.numpy.save(tensors))


def gcn_means():
    """Mean over nodes of D^-1/2 (A + I) D^-1/2 · 1 for graphs with 0 to 3 edges."""
    for edges in range(4):
        adjacency = np.eye(4)
        for i in range(edges):
            adjacency[i, i + 1] = adjacency[i + 1, i] = 1
        scale = adjacency.sum(axis=1) ** -0.5
        yield (scale[:, None] * adjacency * scale).sum(axis=1).mean()


def run(api, job):
    store = api.store
    Runner(store, Library(store.artifacts, torch.device("cpu")), HANDLERS, "w").run(job)


def samples(*labelled, **more):
    return json.dumps({"graphs": [graph(edges, label) for edges, label in labelled], **more})


def test_correct_samples_are_in_the_report(api):
    text = samples((0, 0), (1, 0), (2, 1), (3, 0))
    form = {"weights": ("w", edge_counting_weights(api)), "samples": ("s.json", text.encode())}
    gnn = registered(api, ready=False, **form)
    run(api, gnn["job_id"])
    probed = get(api, gnn["id"]).json()
    assert probed["state"] == "ready", probed["report"]
    assert probed["report"]["samples"] == {
        "graph_count": 4,
        "node_count": None,
        "accuracy": 0.75,
        "min_accuracy": 0.5,
        "classes": [
            {"labelled": 3, "predicted": 2, "correct": 2},
            {"labelled": 1, "predicted": 2, "correct": 1},
        ],
    }
    assert [check["name"] for check in probed["report"]["checks"]][-3:] == [
        "samples_finite",
        "samples_classes",
        "samples_accuracy",
    ]


def test_wrong_samples_are_a_422_with_an_example(api):
    text = samples((0, 0), (1, 0), (2, 1), (3, 0), min_accuracy=0.8)
    members = {
        SPEC: api.spec().model_dump_json().encode(),
        WEIGHTS: edge_counting_weights(api),
        SAMPLES: text.encode(),
    }
    worker = api.soon(
        lambda: run(api, api.queued("probe")[0]), when=lambda: bool(api.queued("probe"))
    )
    form = {"name": (None, "motifs"), "archive": ("gnn.zip", write_archive(members))}
    answer = api.client.post("/v1/gnns", files=form, headers={"Prefer": "wait=60"})
    worker.join()
    rejection = problem(answer, 422)
    (error,) = rejection["errors"]
    assert error["pointer"] == "/archive/samples.json/graphs/3"
    assert "samples_accuracy: 3 of 4 samples are predicted as labelled" in error["detail"]
    assert (
        "graph 3 of the samples, 4 nodes and 3 edges: expected class 0, got class 1"
        in (error["detail"])
    )
    failed = next(check for check in rejection["gnn"]["report"]["checks"] if not check["passed"])
    assert failed["example"]["sample"] == 3
    assert rejection["gnn"]["state"] == "rejected"


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({"graphs": [graph(1)]}, "/graphs/0", "has no label"),
        ({"graphs": [graph(1, 0), graph(1, 2)]}, "/graphs/1/label", "is 2; the classes are 0 to 1"),
        ({"graphs": []}, "/graphs", "at least 1"),
        ({"graphs": [graph(1, 0)] * 5}, "/graphs", "at most 4 samples"),
        ({"graphs": [graph(1, 0)], "min_accuracy": 1.5}, "/min_accuracy", "less than or equal"),
        ({"graphs": [{**graph(1, 0), "x": [[1.0, 1.0]] * 4}]}, "/graphs/0/x/0", "takes 1"),
        ([graph(1, 0)], "", "object"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_bad_samples_are_rejected(shared_api, document, pointer, words, packed):
    spec, weights = shared_api.spec().model_dump_json().encode(), shared_api.weights()
    data = json.dumps(document).encode()
    form = {"spec": (None, spec), "weights": ("w", weights), "samples": ("s.json", data)}
    if packed:
        archive = write_archive({SPEC: spec, WEIGHTS: weights, SAMPLES: data})
        form = {"archive": ("gnn.zip", archive)}
    before = shared_api.written()
    answer = shared_api.client.post("/v1/gnns", files={"name": (None, "n"), **form})
    (error, *_) = problem(answer, 422)["errors"]
    assert error["pointer"] == ("/archive/samples.json" if packed else "/samples") + pointer
    assert words in error["detail"]
    assert shared_api.written() == before


def test_an_archive_registers_the_same_gnn_as_its_parts(api):
    spec, weights = api.spec().model_dump_json().encode(), api.weights()
    archive = write_archive({SPEC: spec, WEIGHTS: weights})
    form = {"name": (None, "motifs"), "archive": ("gnn.zip", archive)}
    headers = {"Prefer": "respond-async", "Idempotency-Key": "k"}
    packed = api.client.post("/v1/gnns", files=form, headers=headers)
    assert packed.status_code == 202, packed.text
    plain = registered(api)
    assert {**plain, "version": 0}.keys() == packed.json().keys()
    for same in ("sha256", "spec"):
        assert packed.json()[same] == plain[same]
    again = api.client.post("/v1/gnns", files=form, headers=headers)
    assert again.json()["id"] == packed.json()["id"]


@pytest.mark.parametrize("beside", ["spec", "weights", "samples"])
def test_an_archive_excludes_other_parts(shared_api, beside):
    form = {"name": (None, "n"), "archive": ("a", b"x"), beside: ("f", b"x")}
    (error,) = problem(shared_api.client.post("/v1/gnns", files=form), 422)["errors"]
    assert error == {
        "pointer": f"/{beside}",
        "detail": "must not be given together with `archive`; put it into the archive",
    }


# Feature schemas

ATOMS = {
    "features": [
        {"name": "C", "group": "atom"},
        {"name": "N", "group": "atom"},
        {"name": "charge"},
    ]
}


def with_schema(api, schema):
    document = {**api.spec(3).model_dump(mode="json"), "feature_schema": schema}
    return {"spec": (None, json.dumps(document)), "weights": ("w", api.weights(3))}


def test_a_schema_is_returned_and_does_not_change_the_hash(api):
    named = registered(api, **with_schema(api, ATOMS))
    plain = registered(api, **with_schema(api, None))
    assert named["spec"]["feature_schema"]["features"][1] == {"name": "N", "group": "atom"}
    assert named["spec"]["featuriser"] is None
    assert named["sha256"] == plain["sha256"]


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"features": ATOMS["features"][:2]}, "/features", "describes 2 features; the GNN takes 3"),
        ({"features": [{"name": "C"}] * 3}, "/features/0/name", "several features"),
        (
            {"features": [{"name": "C", "group": "atom"}, {"name": "a"}, {"name": "b"}]},
            "/features/0/group",
            "at least two",
        ),
        ({"features": [{"name": ""}] * 3}, "/features/0/name", "at least 1"),
        ({"columns": []}, "/features", "required"),
    ],
)
def test_bad_schemas_are_rejected(shared_api, schema, pointer, words):
    form = {"name": (None, "n"), **with_schema(shared_api, schema)}
    answer = shared_api.client.post("/v1/gnns", files=form)
    error = problem(answer, 422)["errors"][0]
    assert error["pointer"] == f"/spec/feature_schema{pointer}"
    assert words in error["detail"]


@pytest.mark.parametrize(
    ("featuriser", "pointer", "words"),
    [
        ("smiles", "", "dictionary"),
        ({"kind": "inchi", "atoms": ["C"]}, "/kind", "'inchi'"),
        ({"kind": "smiles"}, "/atoms", "required"),
        ({"kind": "smiles", "atoms": ["C", "N"]}, "/atoms", "2 elements are 2 features; the GNN"),
        ({"kind": "smiles", "atoms": ["C"], "other": True}, "/atoms", "takes 1"),
        ({"kind": "smiles", "atoms": ["Xx"]}, "/atoms/0", "'Xx' is not the symbol of an element"),
        ({"kind": "smiles", "atoms": ["C", "N", "C"]}, "/atoms/2", "already at position 0"),
        ({"kind": "smiles", "atoms": ["C"], "hydrogen": True}, "/hydrogen", "Extra"),
    ],
)
def test_bad_featurisers_are_rejected(shared_api, featuriser, pointer, words):
    document = {**shared_api.spec().model_dump(mode="json"), "featuriser": featuriser}
    form = {"name": (None, "n"), "spec": (None, json.dumps(document))}
    answer = shared_api.client.post(
        "/v1/gnns", files={**form, "weights": ("w", shared_api.weights())}
    )
    error = problem(answer, 422)["errors"][0]
    assert error["pointer"] == f"/spec/featuriser{pointer}"
    assert words in error["detail"]


def molecule(*rows, label=None):
    return {
        "x": [list(row) for row in rows],
        "edge_index": [[0], [1]],
        **({} if label is None else {"label": label}),
    }


SOUND = molecule((1, 0, 0.5), (0, 1, -2))


@pytest.mark.parametrize(
    ("row", "found"),
    [((0, 0, 0), "no ones"), ((1, 1, 0), "2 ones"), ((0.5, 0.5, 0), "the value 0.5")],
)
def test_graphs_that_violate_a_one_hot_group_are_rejected(api, row, found):
    registered(api, **with_schema(api, ATOMS))
    broken = molecule((1, 0, 0), row)
    dataset = api.client.post("/v1/datasets", json={"name": "s", "graphs": [SOUND]}).json()["id"]
    expected = (
        f"the one-hot group 'atom' (columns 0 to 1) must have one 1 and otherwise 0; it has {found}"
    )

    answer = api.client.post("/v1/gnns/motifs/predictions", json={"graphs": [SOUND, broken]})
    (error,) = problem(answer, 422)["errors"]
    assert error["pointer"] == "/graphs/1/x/1"
    assert expected in error["detail"]
    body = {"kind": "counterfactual", "gnn": "motifs", "dataset": dataset, "graph": broken}
    (error,) = problem(api.client.post("/v1/explanations", json=body), 422)["errors"]
    assert error["pointer"] == "/graph/x/1"
    assert api.client.post("/v1/explanations", json={**body, "graph": SOUND}).status_code == 202


def test_reference_sets_that_violate_a_one_hot_group_are_rejected(api):
    registered(api, **with_schema(api, ATOMS))
    graphs = [SOUND, molecule((1, 0, 0), (1, 1, 0))]
    dataset = api.client.post("/v1/datasets", json={"name": "s", "graphs": graphs}).json()["id"]
    question = {"kind": "class", "gnn": "motifs", "dataset": dataset, "target_class": 0}
    training = {"gnn": "motifs", "dataset": dataset, "objective": "class"}
    before = api.written()
    for noun, body in (("explanations", question), ("denoisers", training)):
        (error,) = problem(api.client.post(f"/v1/{noun}", json=body), 422)["errors"]
        assert error["pointer"] == "/dataset"
        assert f"it has 2 ones at node 1 of graph 1 of {dataset}" in error["detail"]
    assert api.written() == before


def test_samples_are_checked_against_the_schema(shared_api):
    text = json.dumps({"graphs": [molecule((1, 0, 0), (0, 0, 1), label=0)]})
    form = {"name": (None, "n"), **with_schema(shared_api, ATOMS)}
    form["samples"] = ("s.json", text.encode())
    (error,) = problem(shared_api.client.post("/v1/gnns", files=form), 422)["errors"]
    assert error["pointer"] == "/samples/graphs/0/x/1"
