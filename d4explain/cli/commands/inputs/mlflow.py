from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import messages, print_json
from d4explain.client.client import Client
from d4explain.contracts.requests import Aim, Explainer, Preset
from d4explain.errors import CommandError
from d4explain.mlflow.aliases import AliasMirror
from d4explain.mlflow.follow import Choice, Follower, WakeUp
from d4explain.mlflow.registry import MlflowRegistry
from d4explain.mlflow.standard_set import GRAPHS, StandardSet
from d4explain.mlflow.version_record import VersionState
from d4explain.mlflow.version_work import VersionWork

SECRET_VARIABLE = "D4_MLFLOW_WEBHOOK_SECRET"
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"


def mlflow(
    *,
    tracking_uri: Annotated[
        str | None,
        typer.Option(help="MLflow server.", show_default=f"the variable {TRACKING_VARIABLE}"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A registered model; may be repeated.", show_default="all models"),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            help="Explain only versions with this alias; may be repeated.",
            show_default="all versions",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all versions are explained.")
    ] = False,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between two polls.")] = 30,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=f"Also receive MLflow's webhooks; {SECRET_VARIABLE} has their secret.",
            show_default=False,
        ),
    ] = None,
    graphs: Annotated[
        int, typer.Option(min=1, max=256, help="Held-out graphs, or nodes, to explain.")
    ] = GRAPHS,
    no_classes: Annotated[
        bool, typer.Option("--no-classes", help="Do not explain the classes.")
    ] = False,
    aim: Annotated[
        Aim | None, typer.Option(help="As in `explain`.", show_default="of the API")
    ] = None,
    explainer: Annotated[
        Explainer | None,
        typer.Option(help="As in `explain`, for counterfactuals.", show_default="of the API"),
    ] = None,
    preset: Annotated[
        Preset | None, typer.Option(help="As in `explain`.", show_default="of the API")
    ] = None,
    denoiser_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of denoisers.", show_default="of the API"),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(help="Seconds for each job of an explanation.", show_default="of the API"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    public_url: Annotated[
        str | None,
        typer.Option(help="Address of the dashboard in links.", show_default="that of the API"),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Explain the model versions of an MLflow registry whose runs have a GNN."""
    uri = tracking_uri or os.environ.get(TRACKING_VARIABLE)
    if not uri:
        raise CommandError(f"give --tracking-uri, or set {TRACKING_VARIABLE}")
    if once and listen is not None:
        raise CommandError("--listen waits for webhooks; leave out --once")
    # The loop repeats what failed; MLflow's own seven attempts would take minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    standard_set = StandardSet(
        graphs=graphs,
        classes=not no_classes,
        aim=aim,
        explainer=explainer,
        preset=preset,
        denoiser_steps=denoiser_steps,
        time_budget=time_budget,
        seed=seed,
    )
    wake_up = WakeUp()
    with ExitStack() as opened:
        if listen is not None:
            _log(f"webhooks: {opened.enter_context(_webhooks(listen, wake_up))}")
        client = opened.enter_context(Client(url))
        registry = MlflowRegistry(uri)
        follower = Follower(
            registry,
            VersionWork(registry, client, standard_set, _log, public_url),
            AliasMirror(registry, client, _log),
            Choice(tuple(model or ()), tuple(alias or ())),
            _log,
        )
        _log(f"{uri}: looking at {', '.join(model or ['all models'])}")
        try:
            follower.until_done(wake_up) if once else follower.forever(wake_up, interval)
        finally:
            if as_json:
                print_json(_summary(follower))
    if VersionState.FAILED in follower.states.values():
        raise typer.Exit(ExitCode.UNSUCCESSFUL)


def _webhooks(listen: str, wake_up: WakeUp) -> Any:
    """The receiver of webhooks; it needs a secret."""
    from d4explain.mlflow.webhook_listener import listening, webhook_app  # noqa: PLC0415
    from d4explain.mlflow.webhook_signatures import MIN_SECRET, WebhookVerifier  # noqa: PLC0415

    secret = os.environ.get(SECRET_VARIABLE, "")
    if len(secret) < MIN_SECRET:
        raise CommandError(
            f"--listen needs {SECRET_VARIABLE} with at least {MIN_SECRET} characters; it has "
            f"{len(secret)}",
            hint="give MLflow the same secret for its webhook",
        )
    return listening(webhook_app(WebhookVerifier(secret), wake_up.name, _log), listen)


def _summary(follower: Follower) -> list[dict[str, str]]:
    return [
        {"model": name, "version": version, "state": state.value}
        for (name, version), state in sorted(follower.states.items())
    ]


def _log(text: str) -> None:
    time = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    messages().print(f"{time} {text}", markup=False, soft_wrap=True)
