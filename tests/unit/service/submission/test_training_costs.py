"""Trainings that would hold a worker for too long are refused, with what to lower."""

from __future__ import annotations

import pytest

from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT
from models.diffusion.recipes import Objective, recipe_for
from service.submission.training_costs import RECIPE_SIZES, training_seconds
from store.catalogue import datasets, denoisers, gnns
from store.database.tables import Dataset
from store.settings import Settings

ENDLESS = {"steps": 100_000, "hidden": 256, "blocks": 12}


@pytest.mark.parametrize(("objective", "name"), RECIPE_SIZES)
def test_the_sizes_are_those_of_the_recipes(objective, name):
    size, recipe = RECIPE_SIZES[objective, name], recipe_for(Objective(objective), name)
    assert vars(size) == {field: getattr(recipe, field) for field in vars(size)}


@pytest.mark.parametrize("objective", ["counterfactual", "class"])
def test_default_trainings_are_accepted(objective):
    largest = Dataset(max_nodes=10**6)
    seconds = training_seconds(objective, DenoiserConfig(), largest)
    assert seconds < Settings().max_training_seconds


def test_the_papers_training_costs_its_epochs():
    """Measured: 3.6 CPU seconds per step on Tree-Cycle, of 22 steps per epoch."""
    tree_cycle = Dataset(graph_count=696, max_nodes=64, mean_nodes=19.1)
    config = DenoiserConfig(recipe="paper")
    whole = training_seconds("counterfactual", config, tree_cycle)
    assert whole == pytest.approx(1500 * 22 * 3.6, rel=0.5)
    assert whole > Settings().max_training_seconds
    some = training_seconds("counterfactual", config.model_copy(update={"steps": 100}), tree_cycle)
    assert some == pytest.approx(whole / 330)


@pytest.mark.parametrize("field", ENDLESS)
def test_more_costs_more(field):
    graphs = Dataset(max_nodes=30)
    small = DenoiserConfig(steps=100, hidden=16, blocks=2)
    large = small.model_copy(update={field: 2 * getattr(small, field)})
    assert training_seconds("class", large, graphs) > 1.2 * training_seconds("class", small, graphs)


def test_an_endless_training_is_refused(api):
    before = api.written()
    body = {"gnn": api.gnn(), "dataset": api.dataset(), "objective": "class", "config": ENDLESS}
    answer = api.client.post("/v1/denoisers", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/config"
    for words in ("s of a CPU core", "at most 1,800 s", "D4_MAX_TRAINING_SECONDS", "`steps`"):
        assert words in error["detail"]
    assert api.queued("train") == []
    assert api.written()["denoisers"] == before["denoisers"]


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_so_is_one_that_an_explanation_needs(api, query):
    body = {
        "kind": "counterfactual",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "graph": api.graph(),
        "denoiser": ENDLESS,
    }
    answer = api.client.post(f"/v1/explanations{query}", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/denoiser"
    assert api.queued("train") == []


def test_a_trained_denoiser_is_used_whatever_it_cost(deployed):
    api = deployed(max_training_seconds=0.1)
    gnn, dataset = api.gnn(), api.dataset()
    config = {"steps": 50, "hidden": 8, "blocks": 1}
    body = {"gnn": gnn, "dataset": dataset, "objective": "class", "config": config}
    assert api.client.post("/v1/denoisers", json=body).status_code == 422
    with api.store.database.transaction() as session:
        _, training = denoisers.get_or_create(
            session,
            gnn=gnns.get(session, gnn, tenant=DEFAULT_TENANT),
            dataset=datasets.get(session, dataset, tenant=DEFAULT_TENANT),
            objective="class",
            config=DenoiserConfig(**config),
        )
    api.finish(training.id)
    assert api.client.post("/v1/denoisers", json=body).status_code == 200


def test_alpha_belongs_to_the_papers_recipe(deployed):
    api = deployed()
    body = {"gnn": api.gnn(), "dataset": api.dataset(), "objective": "counterfactual"}
    refused = api.client.post("/v1/denoisers", json={**body, "config": {"alpha": 0.2}})
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["pointer"] == "/config/alpha"
    assert "is 0.2" in fault["detail"]
    assert "'paper'" in fault["detail"]
    small = {"recipe": "paper", "alpha": 0.2, "steps": 5, "hidden": 8, "blocks": 1}
    assert api.client.post("/v1/denoisers", json={**body, "config": small}).status_code == 202
