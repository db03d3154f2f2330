"""Dashboard, alert rules and scrape configuration of the Compose profile `monitoring`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from store.database.observations import ModelGroup, Observation
from store.jobs import workers
from store.metrics import answer_series
from tests.processes import Broker

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker/monitoring"
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
SERIES = re.compile(r"\b(d4_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
BY = re.compile(r"\b(?:by|ignoring|on) ?\(([^)]*)\)")
OF_PROMETHEUS = {"job", "instance", "le"}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool on PATH (Debian: apt-get install prometheus)")
    return found


@pytest.fixture(scope="module")
def dashboard_module() -> ModuleType:
    pytest.importorskip("grafana_foundation_sdk")
    spec = importlib.util.spec_from_file_location("dashboard", FOLDER / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dashboard"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "grafana/d4explain.json").read_text())
    return document


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        yield variable["query"]


@pytest.fixture(scope="module")
def scraped(
    deployed: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, set[str]]]:
    """The labels of every series, from real scrapes of an API with a worker and an answer."""
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    try:
        api = deployed(redis_url=broker.url)
        posted = api.explanation(explainer="search", aim="minimal", judges="none")
        api.finish_explanation(posted)
        with api.store.database.transaction() as session:
            workers.beat(session, name="w", queues=["train"], device="cuda:0", pid=1)
        memory = dict.fromkeys(
            ("resident_bytes", "limit_bytes", "device_used_bytes", "device_bytes"), 1
        )
        api.store.metrics.report_worker("w", memory)
        group = ModelGroup("g", "1", "d", "1")
        api.store.metrics.publish(
            [
                Observation(series, "default", (1.0,), ("x",) * len(series.labels), group, "house")
                for series in answer_series.ANSWER_SERIES
            ]
        )
        found: dict[str, set[str]] = {}
        for path in ("/metrics", "/v1/metrics", "/metrics"):  # the first one counts itself
            for family in text_string_to_metric_families(api.client.get(path).text):
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
        yield found
    finally:
        broker.kill()


def test_grafanas_own_sdk_builds_the_dashboard(dashboard_module: ModuleType) -> None:
    assert (FOLDER / "grafana/d4explain.json").read_text() == dashboard_module.built(), (
        "run python docker/monitoring/dashboard.py"
    )


def test_grafanas_own_sdk_reads_the_dashboard(dashboard: dict[str, Any]) -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins")
    plugins.register_default_plugins()
    read = models.Dashboard.from_json(dashboard)
    panels = [panel for panel in read.panels if isinstance(panel, models.Panel)]
    assert (read.title, read.uid) == ("d4explain", "d4explain")
    assert len(panels) >= 15
    exprs = [target.expr for panel in panels for target in panel.targets]
    assert exprs == list(queries(dashboard))[: len(exprs)]
    assert {panel.type_val for panel in panels} == {"timeseries", "stat"}


def test_every_query_uses_series_and_labels_of_a_real_scrape(
    dashboard: dict[str, Any], scraped: dict[str, set[str]]
) -> None:
    asked = [*queries(dashboard), *(rule["expr"] for rule in RULES)]
    assert len(asked) > 30
    for query in asked:
        used = SERIES.findall(query)
        assert used or query.startswith("up{"), query
        labels: set[str] = set()
        for name, matchers in used:
            assert name in scraped, f"no scrape has {name}: {query}"
            named = set(LABEL.findall(matchers)) - OF_PROMETHEUS
            assert named <= scraped[name], query
            labels |= scraped[name]
        for grouped in BY.findall(query):
            named = {name.strip() for name in grouped.split(",")} - OF_PROMETHEUS
            assert named <= labels, query


def test_every_figure_of_the_documentation_is_on_the_dashboard_or_in_a_rule(
    dashboard: dict[str, Any],
) -> None:
    """What nobody looks at is not worth storing."""
    shown = {
        re.sub(r"_(total|bucket)$", "", name)
        for query in (*queries(dashboard), *(rule["expr"] for rule in RULES))
        for name, _ in SERIES.findall(query)
    }
    stored = {series.name for series in answer_series.ANSWER_SERIES}
    assert stored - shown <= {"d4_shared_flips"}  # the numerator of d4_transfer_ratio


def test_legends_use_labels_of_their_queries(dashboard: dict[str, Any]) -> None:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            grouped = {
                name.strip() for group in BY.findall(target["expr"]) for name in group.split(",")
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped


def test_every_alert_is_tested_and_says_what_is_wrong() -> None:
    tests = yaml.safe_load((FOLDER / "alerts.test.yml").read_text())["tests"]
    names = {rule["alert"] for rule in RULES}
    silent, firing = (
        {
            one["alertname"]
            for test in tests
            for one in test["alert_rule_test"]
            if bool(one.get("exp_alerts")) is fires
        }
        for fires in (False, True)
    )
    assert names == firing
    assert names <= silent
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]


def test_promtool_accepts_the_rules(promtool: str) -> None:
    for arguments in (
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
    ):
        ran = subprocess.run(
            [promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_accepts_the_configuration(promtool: str, tmp_path: Path) -> None:
    """It wants to see the file with the key, too."""
    (tmp_path / "key").write_text("d4_x")
    text = (FOLDER / "prometheus.yml").read_text().replace("/tmp/api-key", str(tmp_path / "key"))
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    ran = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_compose_mounts_files_that_exist_and_asks_the_api_by_a_name_it_accepts() -> None:
    mounts = [
        mount.split(":")[0]
        for name in ("prometheus", "grafana")
        for mount in SERVICES[name]["volumes"]
        if mount.startswith("./")
    ]
    assert len(mounts) == 5
    assert all((ROOT / mount).is_file() for mount in mounts)
    scrapes = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert {one.get("metrics_path", "/metrics") for one in scrapes} == {"/metrics", "/v1/metrics"}
    for one in scrapes:
        assert one["static_configs"] == [{"targets": ["api:8400"]}]
    for name in ("prometheus", "grafana"):
        assert SERVICES[name]["profiles"] == ["monitoring"]
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])
    source = yaml.safe_load((FOLDER / "grafana/datasource.yml").read_text())["datasources"][0]
    document = (FOLDER / "grafana/d4explain.json").read_text()
    assert set(re.findall(r'"uid": "([\w-]+prometheus)"', document)) == {source["uid"]}
