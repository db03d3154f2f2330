"""The API and a worker in one process, for tests from an upload to the explanation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
import torch

from worker.loading.library import Library

if TYPE_CHECKING:
    from tests.conftest import Deployment

Document = dict[str, Any]
QUICK_TRAINING = {"steps": 8, "hidden": 4, "blocks": 1}


class ApiFlow:
    """Posts requests to the API and runs the queued jobs with the real handlers."""

    def __init__(
        self, api: Deployment, denoiser: Mapping[str, int] = QUICK_TRAINING, **library: Any
    ) -> None:
        self.api = api
        self.client = api.client
        # Explanations and predictions use these unless a test passes others.
        self.gnn = ""
        self.dataset = ""
        self._denoiser = dict(denoiser)
        self._library = Library(api.store.artifacts, torch.device("cpu"), **library)

    def work(self) -> None:
        """Runs all queued jobs."""
        self.api.work(self._library)

    def post_gnn(self, name: str, spec: Document, weights: bytes, samples: Any = None) -> Any:
        files = {"weights": ("w", weights)}
        if samples is not None:
            files["samples"] = ("s", json.dumps(samples).encode())
        return self.client.post(
            "/v1/gnns",
            data={"name": name, "spec": json.dumps(spec)},
            files=files,
            headers={"Prefer": "respond-async"},
        )

    def register(self, name: str, spec: Document, weights: bytes, samples: Any = None) -> Document:
        """Returns the GNN after its probe."""
        return self._finished(self.post_gnn(name, spec, weights, samples))

    def create_dataset(self, graphs: Sequence[Document], **fields: Any) -> Document:
        body = {"name": "reference", "graphs": list(graphs), **fields}
        answer = self.client.post("/v1/datasets", json=body)
        assert answer.status_code == 201, answer.text
        dataset: Document = answer.json()
        return dataset

    def post_explanation(self, **body: Any) -> Any:
        defaults: Document = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
        }
        if body.get("kind", "counterfactual") == "counterfactual":
            defaults |= {"aim": "minimal", "judges": "none"}  # no witnesses: they take a minute
        if body.get("explainer") != "search":
            defaults["denoiser"] = self._denoiser
        return self.client.post("/v1/explanations", json={**defaults, **body})

    def explain(self, **body: Any) -> Document:
        """Returns the finished explanation."""
        explanation = self._finished(self.post_explanation(**body))
        assert explanation["state"] == "succeeded", explanation["job"]["error"]
        return explanation

    def assert_what_if_agrees(self, explanation: Document) -> None:
        """The edits of each counterfactual, asked as toggles, give its prediction."""
        asked = 0
        for graph, answer in enumerate(explanation["result"]["answers"]):
            for found in [*answer["counterfactuals"], *answer["minimal"]]:
                toggles = [[edit["source"], edit["target"]] for edit in found["edits"]]
                told = self.client.post(
                    f"/v1/explanations/{explanation['id']}/what-if",
                    json={"graph": graph, "toggles": toggles},
                )
                assert told.status_code == 200, told.text
                expected = found["prediction"]
                assert told.json()["prediction"]["predicted_class"] == expected["predicted_class"]
                assert told.json()["prediction"]["probabilities"] == pytest.approx(
                    expected["probabilities"], abs=1e-5
                )
                assert told.json()["edges"] == len(found["graph"]["edges"])
                asked += 1
        assert asked, "the explanation has no counterfactual"

    def answers(self, **body: Any) -> list[Document]:
        """Returns the answers of a counterfactual explanation, one per graph or node."""
        answers: list[Document] = self.explain(**body)["result"]["answers"]
        return answers

    def predict(self, **body: Any) -> list[Document]:
        answer = self.client.post(
            f"/v1/gnns/{self.gnn}/predictions", json=body, headers={"Prefer": "respond-async"}
        )
        predictions: list[Document] = self._finished(answer)["result"]["predictions"]
        return predictions

    def _finished(self, answer: Any) -> Document:
        assert answer.status_code == 202, answer.text
        self.work()
        finished: Document = self.client.get(answer.headers["location"]).json()
        return finished


def assert_refused(answer: Any, pointer: str, message: str = "", status: int = 422) -> None:
    """Checks the status and the only error of the response."""
    assert answer.status_code == status, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert message in error["detail"]
