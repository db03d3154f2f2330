"""The composition root: one store in, one ASGI application out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from d4explain.contracts.defaults import MIB
from service.context import Context
from service.http import problems
from service.http.admission import Admission, Capacity
from service.http.body_limits import BodyLimit, BodyMemory
from service.http.openapi import describe
from service.http.origins import OwnOrigin, hosts_of
from service.http.waiting import JobWatcher
from service.routes import (
    datasets,
    denoisers,
    explanations,
    gnn_aliases,
    gnns,
    health,
    jobs,
    landing,
    large_graphs,
    predictions,
)
from service.submission.explanation_submissions import Submissions
from service.telemetry import JobMetrics, RequestMetrics, Telemetry
from store.queue.dispatcher import Dispatcher
from store.queue.job_notifications import JobNotifications
from store.store import Store

_ROUTERS = [
    noun.router
    for noun in (
        explanations,  # first, since it is asked most: a request is held against each in turn
        gnns,
        gnn_aliases,
        predictions,
        large_graphs,
        datasets,
        denoisers,
        jobs,
        health,
        landing,
    )
]
_GRAPHS_AT = frozenset({"/v1/datasets", "/v1/explanations"})
_DESCRIPTION = """
Explains trained graph neural networks: the smallest realistic change to a graph that changes the
GNN's answer (*counterfactual explanation*), and what a typical graph of a class looks like to the
GNN (*class explanation*).

1. `POST /v1/gnns`: register a GNN as a layer spec and safetensors weights.
2. `POST /v1/datasets`: store graphs of the distribution it was trained on.
3. `POST /v1/explanations`: ask; a denoiser is trained on the way if there is none yet.
   `explainer: search` needs none and answers at once.

Work is asynchronous: 202 with `Location` and `Retry-After`, `Prefer: wait=n` to wait, server-sent
events to follow. Errors are `application/problem+json` with JSON pointers. Offline, this
description is at `/openapi.json`.

| this deployment accepts at most | |
|---|---|
| nodes of a graph | {max_nodes:,} |
| edges of a graph | {max_edges:,} |
| features of a node | {max_features:,} |
| graphs of a reference set | {max_dataset_graphs:,} |
| graphs of one explanation or prediction | {max_graphs_per_request:,} |
| bytes of a JSON body | {max_body_bytes:,} |
| nodes, edges, bytes of a large graph | {max_large_nodes:,}, {max_large_edges:,}, \
{max_large_bytes:,} |
| bytes of a weights file | {max_weights_bytes:,} |
"""


def create_app(
    store: Store,
    *,
    dispatcher: Dispatcher | None = None,
    notifications: JobNotifications | None = None,
    broker_answers: Callable[[], bool] | None = None,
    capacity: Capacity | None = None,
    heartbeat_seconds: float = 15.0,
) -> FastAPI:
    """The application; with a dispatcher it also announces jobs for as long as it runs."""
    watch = JobWatcher(store.database, notifications)
    submissions = Submissions(store)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if dispatcher is not None:
            dispatcher.start()
        try:
            yield
        finally:
            watch.stop()
            submissions.close()
            app.state.context.close()
            if dispatcher is not None:
                dispatcher.stop()

    app = FastAPI(
        title="d4explain",
        version="0.1.0",
        summary="Counterfactual and class explanations of graph neural networks.",
        description=_DESCRIPTION.format(**store.settings.model_dump()),
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        # Those of `service.telemetry` are enough; to ask for others takes time with every request.
        telemetry={"metrics": False, "logs": False},
    )
    app.state.context = Context(
        store=store,
        submissions=submissions,
        watch=watch,
        wake_dispatcher=dispatcher.notify if dispatcher is not None else lambda *_: None,
        broker_answers=broker_answers,
        heartbeat_seconds=heartbeat_seconds,
    )
    app.state.registry = CollectorRegistry()
    app.state.registry.register(JobMetrics(store.database))
    for router in _ROUTERS:
        app.include_router(router)
    problems.install(app, [*app.routes, *(route for router in _ROUTERS for route in router.routes)])
    describe(app, _ROUTERS)
    # The last one added is the outermost.
    app.add_middleware(
        BodyLimit,
        limit_for=_body_limits(store),
        memory=BodyMemory(2 * store.settings.max_body_bytes),
        on_disk=frozenset({large_graphs.PATH}),
    )
    app.add_middleware(OwnOrigin, hosts=hosts_of(store.settings.allowed_hosts, store.settings.host))
    app.add_middleware(Admission, capacity=capacity or Capacity(), upload_path=large_graphs.PATH)
    app.add_middleware(problems.LastResort)
    app.add_middleware(Telemetry, metrics=RequestMetrics(app.state.registry))
    return app


def _body_limits(store: Store) -> Callable[[str], int]:
    settings = store.settings
    # Weights and samples come with a name and a spec in one form.
    with_weights = settings.max_weights_bytes + settings.max_body_bytes + 2 * MIB

    def limit_for(path: str) -> int:
        if path == large_graphs.PATH:
            return settings.max_large_bytes
        if path == "/v1/gnns":
            return with_weights
        takes_graphs = path in _GRAPHS_AT or path.endswith("/predictions")
        return settings.max_body_bytes if takes_graphs else min(MIB, settings.max_body_bytes)

    return limit_for
