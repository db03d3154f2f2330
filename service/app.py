"""Builds the application from a store: routes, middleware and the shared context."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.middleware.cors import CORSMiddleware

from d4explain.contracts.defaults import MIB
from service.context import Context
from service.http import problems
from service.http.access.authentication import Authentication
from service.http.access.failed_keys import FailedKeys
from service.http.access.gateway import GatewayHeaders
from service.http.access.key_lookup import KeyLookup
from service.http.middleware.admission import Admission, Capacity
from service.http.middleware.auditing import Auditing
from service.http.middleware.body_limits import BodyLimit, BodyMemory
from service.http.middleware.origins import OriginCheck, allowed_hosts, allowed_origins
from service.http.middleware.request_rates import RequestRates
from service.http.openapi import install_openapi
from service.http.waiting import JobWatcher
from service.reports.embed_errors import EmbedErrors
from service.routes import (
    dashboard,
    datasets,
    denoisers,
    docs,
    gnn_aliases,
    gnns,
    graph_previews,
    health,
    jobs,
    large_graphs,
    predictions,
    webhooks,
)
from service.routes.access import keys, links, sessions
from service.routes.data_life import holds, metadata, tenant_policies
from service.routes.evaluations import comparisons, evaluations, rows, signed_results
from service.routes.evaluations import reports as evaluation_reports
from service.routes.explaining import answers, explanations, reports, what_if
from service.routes.integrations import kserve, trustyai
from service.routes.receipts import audit_log, receipts, replays
from service.signer import Signer
from service.submission.explanation_submissions import Submissions
from service.telemetry.collectors import DeploymentMetrics
from service.telemetry.middleware import RequestMetrics, Telemetry
from store.queue.dispatcher import Dispatcher
from store.queue.job_notifications import JobNotifications
from store.queue.worker_calls import AskWorker, nobody_answers
from store.settings import Settings
from store.store import Store

ROUTERS = [
    module.router
    for module in (
        explanations,  # first, since it gets most requests: Starlette tries the routes in order
        answers,
        gnns,
        gnn_aliases,
        predictions,
        reports,
        kserve,
        trustyai,
        graph_previews,
        what_if,
        large_graphs,
        datasets,
        denoisers,
        evaluations,
        rows,
        evaluation_reports,
        signed_results,
        comparisons,
        jobs,
        webhooks,
        replays,
        holds,
        tenant_policies,
        metadata,
        receipts,
        audit_log,
        links,
        keys,
        sessions,
        health,
        dashboard,
        docs,
    )
]
# What pages of listed sites may send and read, besides what every page may.
_REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Prefer",
    "traceparent", "X-Request-ID",
)  # fmt: skip
_RESPONSE_HEADERS = (
    "ETag", "Idempotency-Replayed", "Link", "Location", "Preference-Applied", "Retry-After",
    "WWW-Authenticate", "X-Request-ID",
)  # fmt: skip
_GRAPH_PATH_ENDS = ("/predictions", "/graph-previews", ":explain")
_GRAPH_PATHS = frozenset({"/v1/datasets", "/v1/explanations"})
_DESCRIPTION = """
Explains trained graph neural networks: the smallest realistic change to a graph that changes the
GNN's prediction (*counterfactual explanation*), and the patterns that are typical of a class
(*class explanation*).

1. `POST /v1/gnns`: register a GNN as a layer spec and safetensors weights.
2. `POST /v1/datasets`: store graphs of the distribution it was trained on.
3. `POST /v1/explanations`: request an explanation. The first request trains a denoiser and
   witnesses; meanwhile a search gives a provisional answer.

Work is asynchronous: requests return 202 with `Location` and `Retry-After`. `Prefer: wait=n` waits
for the result; server-sent events report progress. Errors are `application/problem+json` with JSON
pointers.

| limits of this deployment | |
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
    ping_broker: Callable[[], bool] | None = None,
    ask_worker: AskWorker = nobody_answers,
    capacity: Capacity | None = None,
    heartbeat_seconds: float = 15.0,
) -> FastAPI:
    """The application; a dispatcher, if given, runs as long as the application."""
    key_lookup = KeyLookup(store.database)
    job_watcher = JobWatcher(store.database, notifications)
    submissions = Submissions(store)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if dispatcher is not None:
            dispatcher.start()
        try:
            yield
        finally:
            job_watcher.stop()
            submissions.close()
            app.state.context.close()
            if dispatcher is not None:
                dispatcher.stop()

    app = FastAPI(
        title="d4explain",
        version="0.1.0",
        summary="Counterfactual and class explanations of graph neural networks.",
        description=_DESCRIPTION.format(**store.settings.model_dump()),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        # `service/telemetry` suffices; FastAPI's own telemetry would slow every request.
        telemetry={"metrics": False, "logs": False},
    )
    app.state.context = Context(
        store=store,
        submissions=submissions,
        signer=Signer(store),
        job_watcher=job_watcher,
        keys=key_lookup,
        wake_dispatcher=dispatcher.notify if dispatcher is not None else lambda *_: None,
        ping_broker=ping_broker,
        ask_worker=ask_worker,
        heartbeat_seconds=heartbeat_seconds,
    )
    app.state.registry = CollectorRegistry()
    app.state.registry.register(DeploymentMetrics(store))
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app, [*app.routes, *(route for router in ROUTERS for route in router.routes)])
    install_openapi(app, ROUTERS)
    # The middleware added last is the outermost.
    app.add_middleware(Auditing, database=store.database)
    app.add_middleware(
        BodyLimit,
        limit_for=_body_limits(store),
        memory=BodyMemory(2 * store.settings.max_body_bytes),
        on_disk=frozenset({large_graphs.PATH}),
    )
    app.add_middleware(RequestRates, database=store.database)
    app.add_middleware(Authentication, keys=key_lookup, failures=FailedKeys())
    app.add_middleware(EmbedErrors)
    app.add_middleware(Admission, capacity=capacity or Capacity(), upload_path=large_graphs.PATH)
    _add_origin_middleware(app, store.settings)
    app.add_middleware(problems.UnhandledErrors)
    app.add_middleware(Telemetry, metrics=RequestMetrics(app.state.registry))
    return app


def _add_origin_middleware(app: FastAPI, settings: Settings) -> None:
    origins = allowed_origins(settings.allowed_origins)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_REQUEST_HEADERS,
            expose_headers=_RESPONSE_HEADERS,
            allow_credentials=False,  # pages of other sites send a key, never a cookie
        )
    app.add_middleware(
        OriginCheck, hosts=allowed_hosts(settings.allowed_hosts, settings.host), origins=origins
    )
    if settings.trusted_proxies:
        app.add_middleware(GatewayHeaders, trusted=settings.trusted_proxies)


def _body_limits(store: Store) -> Callable[[str], int]:
    settings = store.settings
    # A registration has weights, samples, a name and a spec in one form.
    registration_bytes = settings.max_weights_bytes + settings.max_body_bytes + 2 * MIB

    def limit_for(path: str) -> int:
        if path == large_graphs.PATH:
            return settings.max_large_bytes
        if path == "/v1/gnns":
            return registration_bytes
        has_graphs = path in _GRAPH_PATHS or path.endswith(_GRAPH_PATH_ENDS)
        return settings.max_body_bytes if has_graphs else min(MIB, settings.max_body_bytes)

    return limit_for
