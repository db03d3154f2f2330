"""Builds the Grafana dashboard with Grafana's own SDK.

`python docker/monitoring/dashboard.py` writes grafana/d4explain.json, which Grafana loads. A test
builds it again and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)

FILE = Path(__file__).parent / "grafana" / "d4explain.json"
SOURCE = DataSourceRef("prometheus", "d4explain-prometheus")
_HEIGHT = 8
_DEPLOYMENT = 'job="d4explain"'
_MODELS = 'job="d4explain-models", gnn=~"$gnn", dataset=~"$dataset"'
_BY_MODEL = "gnn, version, dataset, class"


@dataclass(frozen=True)
class Line:
    """A query, and the name of its lines."""

    query: str
    legend: str


@dataclass(frozen=True)
class Chart:
    title: str
    description: str
    lines: Sequence[Line]
    unit: str = "short"
    width: int = 8  # of 24
    maximum: float | None = None


def _hourly(series: str, where: str) -> str:
    """Every API shows the figures of the deployment: `max` counts them once."""
    return f"max without (instance) (increase({series}{{{where}}}[1h]))"


def _quantile(level: float, series: str, by: str, where: str) -> str:
    """Of what was observed in the last hour: there may be minutes between two jobs."""
    return f"histogram_quantile({level}, sum by ({by}, le) ({_hourly(series + '_bucket', where)}))"


SERVICE = (
    Chart(
        "Requests",
        "Requests per second of all APIs, by status.",
        [Line("sum by (status) (rate(d4_http_requests_total[$__rate_interval]))", "{{status}}")],
        unit="reqps",
    ),
    Chart(
        "Slowest routes",
        "Time until 95 % of the responses of a route began.",
        [
            Line(
                "topk(5, histogram_quantile(0.95, sum by (route, le) "
                "(rate(d4_http_request_seconds_bucket[$__rate_interval]))))",
                "{{route}}",
            )
        ],
        unit="s",
    ),
    Chart(
        "Requests in progress, notifications that wait",
        "Open requests of all APIs; notifications that were not delivered.",
        [
            Line("sum(d4_http_requests_running)", "requests"),
            Line("max by (state) (d4_webhook_deliveries)", "webhooks {{state}}"),
        ],
    ),
)
JOBS = (
    Chart(
        "Queues",
        "Jobs that wait for a worker (queued), wait for a training (waiting), or run.",
        [Line(f"max by (queue, state) (d4_queue_depth{{{_DEPLOYMENT}}})", "{{queue}} {{state}}")],
    ),
    Chart(
        "Oldest queued job",
        "Seconds since the oldest job that only waits for a worker was submitted.",
        [Line(f"max by (queue) (d4_queue_age_seconds{{{_DEPLOYMENT}}})", "{{queue}}")],
        unit="s",
    ),
    Chart(
        "Ended jobs",
        "Jobs that ended per hour, by state.",
        [
            Line(
                "sum by (state) (max by (kind, state) (delta("
                f'd4_jobs{{{_DEPLOYMENT}, state!~"queued|running"}}[1h])))',
                "{{state}}",
            )
        ],
    ),
    Chart(
        "Seconds of jobs, median",
        "Of jobs that ended in the last hour, by kind and phase.",
        [Line(_quantile(0.5, "d4_job_seconds", "kind, phase", _DEPLOYMENT), "{{kind}} {{phase}}")],
        unit="s",
        width=12,
    ),
    Chart(
        "Seconds of jobs, 95 %",
        "Of jobs that ended in the last hour, by kind and phase.",
        [Line(_quantile(0.95, "d4_job_seconds", "kind, phase", _DEPLOYMENT), "{{kind}} {{phase}}")],
        unit="s",
        width=12,
    ),
)
WORKERS = (
    Chart(
        "Attempts and lost jobs",
        "Attempts that began, and jobs whose worker stopped sending heartbeats, per hour.",
        [
            Line(
                f"sum({_hourly('d4_job_claims_total', _DEPLOYMENT)})",
                "attempts",
            ),
            Line(
                f"sum({_hourly('d4_lease_losses_total', _DEPLOYMENT)})",
                "lost jobs",
            ),
        ],
    ),
    Chart(
        "Memory of workers",
        "Memory of the process that runs jobs, and what it may use.",
        [
            Line("max by (worker) (d4_worker_resident_bytes)", "{{worker}}"),
            Line("max by (worker) (d4_worker_memory_limit_bytes)", "limit of {{worker}}"),
        ],
        unit="bytes",
    ),
    Chart(
        "Memory of GPUs",
        "Used memory, also by other processes, and all memory.",
        [
            Line("max by (worker) (d4_device_used_bytes)", "{{worker}}"),
            Line("max by (worker) (d4_device_memory_bytes)", "GPU of {{worker}}"),
        ],
        unit="bytes",
    ),
)
ANSWERS = (
    Chart(
        "Validity",
        "Share of the last 100 explained graphs that have a counterfactual.",
        [
            Line(
                f"max by ({_BY_MODEL}) (d4_validity_ratio{{{_MODELS}}})",
                "{{gnn}} {{version}} {{class}}",
            )
        ],
        unit="percentunit",
        maximum=1,
    ),
    Chart(
        "Transfer",
        "Share of the last 100 judged flips that other networks share.",
        [
            Line(
                f"max by ({_BY_MODEL}) (d4_transfer_ratio{{{_MODELS}}})",
                "{{gnn}} {{version}} {{class}}",
            )
        ],
        unit="percentunit",
        maximum=1,
    ),
    Chart(
        "Explained graphs",
        "Graphs or nodes per hour for which a counterfactual was searched, and those with one.",
        [
            Line(
                f"sum by (gnn, version) ({_hourly(name, _MODELS)})",
                f"{{{{gnn}}}} {{{{version}}}} {what}",
            )
            for name, what in (
                ("d4_explained_graphs_total", "explained"),
                ("d4_flipped_graphs_total", "flipped"),
            )
        ],
    ),
    Chart(
        "Edits, median and 95 %",
        "Edits of the best counterfactuals of the last hour.",
        [
            Line(
                _quantile(level, "d4_edits", "gnn, version", _MODELS),
                f"{{{{gnn}}}} {{{{version}}}} {name}",
            )
            for level, name in ((0.5, "median"), (0.95, "95 %"))
        ],
    ),
    Chart(
        "Typicality, median",
        "Of the best counterfactuals of the last hour. 0: no reference graph is as unusual.",
        [Line(_quantile(0.5, "d4_typicality", "gnn, version", _MODELS), "{{gnn}} {{version}}")],
        maximum=1,
    ),
    Chart(
        "MMD and its null",
        "Distance of the newest explanation to the reference set. Above the dashed line, reference "
        "graphs are in 5 % of cases.",
        [
            Line(
                f'max by (gnn, version, kind, class) (d4_mmd{{{_MODELS}, stat="sum"}})',
                "{{gnn}} {{version}} {{kind}} {{class}}",
            ),
            Line(
                f"max by (gnn, version, kind, class) (d4_mmd_null_p95{{{_MODELS}}})",
                "null p95 {{gnn}} {{version}} {{kind}} {{class}}",
            ),
        ],
    ),
)
ROWS = (("Service", SERVICE), ("Jobs", JOBS), ("Workers", WORKERS), ("Answers", ANSWERS))


def built() -> str:
    """The dashboard as JSON."""
    builder = (
        dashboard.Dashboard("d4explain")
        .uid("d4explain")
        .description("Jobs, workers and answers of d4explain (docs/monitoring.md).")
        .tags(["d4explain"])
        .timezone("browser")
        .refresh("30s")
        .time("now-6h", "now")
        .readonly()
        .with_variable(_variable("gnn", "GNN"))
        .with_variable(_variable("dataset", "Data set"))
        .with_panel(_workers())
    )
    for title, charts in ROWS:
        builder.with_row(dashboard.Row(title))
        for chart in charts:
            builder.with_panel(_panel(chart))
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"


def _variable(label: str, title: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(label)
        .label(title)
        .datasource(SOURCE)
        .query(f"label_values(d4_explained_graphs_total, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _query(line: Line, number: int) -> prometheus.Dataquery:
    letter = chr(ord("A") + number)
    return (
        prometheus.Dataquery()
        .datasource(SOURCE)
        .expr(line.query)
        .legend_format(line.legend)
        .ref_id(letter)
        .range()
    )


def _workers() -> stat.Panel:
    line = Line("max by (queue) (d4_workers)", "{{queue}}")
    return (
        stat.Panel()
        .title("Live workers")
        .description("A queue with 0 workers does not move.")
        .datasource(SOURCE)
        .height(4)
        .span(24)
        .with_target(_query(line, 0))
    )


def _panel(chart: Chart) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    panel = (
        timeseries.Panel()
        .title(chart.title)
        .description(chart.description)
        .datasource(SOURCE)
        .unit(chart.unit)
        .min(0)
        .height(_HEIGHT)
        .span(chart.width)
        .legend(legend)
    )
    if chart.maximum is not None:
        panel.max(chart.maximum)
    for number, line in enumerate(chart.lines):
        panel.with_target(_query(line, number))
    return panel


if __name__ == "__main__":
    FILE.write_text(built())
