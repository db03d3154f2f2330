"""All settings of a deployment, read once from environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from d4explain.contracts.defaults import API_HOST, API_PORT, DATA_DIR, MIB
from store.errors import SettingsError

_ENV_PREFIX = "D4_"
_LAST_PORT = 65_535
_BROKER_SCHEMES = ("redis://", "rediss://", "redis+socket://")


def _require_broker_scheme(url: str | None) -> str | None:
    if url is not None and not url.startswith(_BROKER_SCHEMES):
        raise ValueError(f"must begin with one of {', '.join(_BROKER_SCHEMES)}")
    return url


_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1|")  # a socket has no host


def _absolute(folder: Path) -> Path:
    """API and workers may start in different folders."""
    return folder.expanduser().absolute()


def _upper(text: object) -> object:
    return text.upper() if isinstance(text, str) else text


Count = Annotated[int, Field(gt=0)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _setting(default: Any, description: str, *, shown: str | None = None, **limits: Any) -> Any:
    """A field; `shown` replaces the default in the documentation."""
    extra: dict[str, JsonValue] = {"shown": shown}
    return Field(
        default,
        description=description,
        json_schema_extra=extra,
        validate_default=True,
        **limits,
    )


class SettingRow(NamedTuple):
    env: str
    default: str
    meaning: str


class Settings(BaseSettings):
    """The settings of one deployment; `docs/settings.md` lists them."""

    model_config = SettingsConfigDict(env_prefix=_ENV_PREFIX, frozen=True, extra="forbid")

    data_dir: Annotated[Path, AfterValidator(_absolute)] = _setting(
        Path(DATA_DIR),
        "Folder of the embedded database and the artifacts.",
    )
    database_url: str = _setting(
        "",
        "SQLAlchemy URL: `sqlite:///…` or `postgresql+psycopg://…`.",
        shown="SQLite file in `D4_DATA_DIR`",
    )
    signing_key: str = _setting(
        "",
        "File with the Ed25519 private key that signs receipts, in PEM form. Give all APIs of a "
        "deployment the same key.",
        shown="`signing-key.pem` in `D4_DATA_DIR`, created at its first use",
    )
    redis_url: Annotated[str | None, AfterValidator(_require_broker_scheme)] = _setting(
        None,
        "Broker URL: `redis://`, `rediss://` or `redis+socket://`. Each deployment needs its own "
        "database number. With SQLite, the broker must be on this machine.",
        shown="none; `d4explain up` starts a broker",
    )
    artifacts: str = _setting(
        "",
        "Where artifacts are stored: a folder or an fsspec URL such as `s3://bucket/prefix`.",
        shown="`artifacts` in `D4_DATA_DIR`",
    )
    device: str = _setting("auto", "Device of a worker: `auto`, `cpu`, `cuda` or `cuda:<n>`.")
    threads: int = _setting(
        0, "Torch threads of a worker; 0 uses half of the available CPUs.", ge=0
    )
    host: str = _setting(API_HOST, "Address that the API listens on.")
    port: int = _setting(API_PORT, "Port that the API listens on.", ge=0, le=_LAST_PORT)
    allowed_hosts: str = _setting(
        "",
        "Additional host names that the API accepts, comma-separated. Loopback names and `D4_HOST` "
        "are always accepted; `*` accepts any host.",
        shown="none",
    )
    allowed_origins: str = _setting(
        "",
        "Web sites whose pages may use the API with a key, comma-separated, such as "
        "`https://dash.example.org`. Cookies of other sites never count.",
        shown="none",
    )
    trusted_proxies: str = _setting(
        "",
        "Addresses or networks of gateways, comma-separated, whose headers `X-Forwarded-For`, "
        "`X-Forwarded-Proto` and `X-Forwarded-Host` the API believes.",
        shown="none",
    )
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = (
        _setting("INFO", "`DEBUG`, `INFO`, `WARNING` or `ERROR`. Logs are JSON lines.")
    )
    lease_seconds: Duration = _setting(
        10.0,
        "How long a worker keeps a job without a heartbeat. Workers send three heartbeats in this "
        "time.",
    )
    max_attempts: Count = _setting(
        3, "Number of attempts before a job fails. A clean shutdown does not count."
    )
    redispatch_seconds: Duration = _setting(
        15.0,
        "Time before an unclaimed job is announced again; it doubles with each announcement.",
    )
    cancel_grace_seconds: float = _setting(
        5.0,
        "How long a canceled job may take to stop before its process is killed.",
        ge=0,
        allow_inf_nan=False,
    )
    checkpoint_seconds: Duration = _setting(10.0, "Time between two training checkpoints.")
    job_time_limit_seconds: Duration = _setting(
        3600.0,
        "Time limit of one attempt. For a training, the limit covers all attempts together.",
    )
    max_training_seconds: Duration = _setting(
        1800.0,
        "Longest training that the API accepts, estimated for one CPU core. Explanations go "
        "without witnesses that would take longer. Raise it if you have a GPU.",
    )
    jobs_at_once: Count = _setting(
        32,
        "Maximum number of explanation jobs of one denoiser that a worker claims at once. It runs "
        "them one after the other.",
    )
    queue_hours: Duration = _setting(24.0, "A job expires if no worker starts it within this time.")
    idempotency_hours: Duration = _setting(24.0, "How long the API remembers an `Idempotency-Key`.")
    retention_explanation_days: float = _setting(
        0.0,
        "Days after which an explanation is deleted; 0 keeps it. A tenant's admin can set other "
        "times.",
        ge=0,
        allow_inf_nan=False,
    )
    retention_job_days: float = _setting(
        0.0,
        "Days after its end in which a prediction, or a job that a retry has replaced, is kept; 0 "
        "keeps it.",
        ge=0,
        allow_inf_nan=False,
    )
    retention_network_days: float = _setting(
        0.0,
        "Days without use after which denoisers and witnesses are deleted; 0 keeps them.",
        ge=0,
        allow_inf_nan=False,
    )
    retention_dataset_days: float = _setting(
        0.0,
        "Days after which a reference set is deleted if nothing refers to it; 0 keeps it.",
        ge=0,
        allow_inf_nan=False,
    )
    max_queued_jobs: int = _setting(
        100_000, "Maximum number of queued jobs of all tenants together; 0 for no limit.", ge=0
    )
    tenant_jobs: int = _setting(
        0, "Maximum number of queued and running jobs of a tenant; 0 for no limit.", ge=0
    )
    tenant_work_hours: float = _setting(
        0.0,
        "Maximum estimated work in the queued and running jobs of a tenant, on one core; 0 for no "
        "limit.",
        ge=0,
        allow_inf_nan=False,
    )
    tenant_stored_bytes: int = _setting(
        0, "Maximum number of bytes that a tenant's artifacts may have; 0 for no limit.", ge=0
    )
    tenant_requests_per_second: float = _setting(
        0.0,
        "Maximum number of requests that an API process accepts from a tenant in a second; 0 for "
        "no limit.",
        ge=0,
        allow_inf_nan=False,
    )
    max_body_bytes: Count = _setting(32 * MIB, "Maximum size of a JSON body or a samples file.")
    max_weights_bytes: Count = _setting(64 * MIB, "Maximum size of a GNN's weights file.")
    max_nodes: Count = _setting(4096, "Maximum number of nodes of a graph.")
    max_edges: Count = _setting(32768, "Maximum number of edges of a graph.")
    exact_nodes: Count = _setting(
        512,
        "Largest graph for which the search considers all node pairs. In larger graphs it "
        "considers a subset.",
    )
    max_features: Count = _setting(4096, "Maximum number of features of a node.")
    max_graphs_per_request: Count = _setting(
        256,
        "Maximum number of graphs or nodes in an explanation, of graphs in a prediction, and of "
        "samples of a GNN.",
    )
    max_dataset_graphs: Count = _setting(20_000, "Maximum number of graphs in a reference set.")
    max_large_bytes: Count = _setting(1024 * MIB, "Maximum upload size of a large graph.")
    max_large_nodes: Count = _setting(2_000_000, "Maximum number of nodes of a large graph.")
    max_large_edges: Count = _setting(20_000_000, "Maximum number of edges of a large graph.")
    max_large_values: Count = _setting(
        256_000_000, "Maximum number of feature values of a large graph (nodes times features)."
    )
    max_neighbourhood_nodes: Count = _setting(
        128,
        "Maximum number of nodes that the search edits around one node of a large graph. If there "
        "are more, it takes the nearest ones.",
    )
    black_box: bool = _setting(
        False, "Allows GNNs that are registered by a URL that workers query.", shown="off"
    )
    black_box_hosts: str = _setting(
        "",
        "Hosts that workers may query, comma-separated: `host` or `host:port`.",
        shown="none",
    )
    black_box_private_hosts: str = _setting(
        "",
        "Hosts of `D4_BLACK_BOX_HOSTS` that may have private, loopback or link-local addresses.",
        shown="none",
    )
    black_box_queries: Count = _setting(
        20_000,
        "Maximum number of graphs that one job sends to a black box. A request can lower it.",
    )
    black_box_seconds: Duration = _setting(10.0, "Timeout of a black box for one batch of graphs.")
    webhook_hosts: str = _setting(
        "",
        "Hosts that workers may notify of the ends of jobs, comma-separated: `host` or "
        "`host:port`. Webhooks are off without any.",
        shown="none",
    )
    webhook_private_hosts: str = _setting(
        "",
        "Hosts of `D4_WEBHOOK_HOSTS` that may have private, loopback or link-local addresses, and "
        "may be notified over http.",
        shown="none",
    )
    webhook_retry_hours: Duration = _setting(
        24.0, "How long a notification is sent again before it is given up."
    )
    metric_groups: Count = _setting(
        50,
        "Maximum number of pairs of a GNN version and a reference set that `/v1/metrics` names for "
        "a tenant; further ones are counted as `other`.",
    )

    @field_validator("database_url")
    @classmethod
    def _default_database_url(cls, url: str, info: ValidationInfo) -> str:
        return url or f"sqlite:///{info.data['data_dir'] / 'd4explain.sqlite'}"

    @field_validator("redis_url")
    @classmethod
    def _refuse_remote_sqlite(cls, url: str | None, info: ValidationInfo) -> str | None:
        """A worker elsewhere would take messages and look for their jobs in a file of its own."""
        host = urlsplit(url or "").hostname or ""
        if info.data.get("database_url", "").startswith("sqlite") and not _LOOPBACK.fullmatch(host):
            raise ValueError(
                "names another machine, but D4_DATABASE_URL is SQLite, which serves one machine; "
                "use a PostgreSQL database, or a broker on 127.0.0.1"
            )
        return url

    @field_validator("artifacts")
    @classmethod
    def _default_artifacts(cls, url: str, info: ValidationInfo) -> str:
        return url or str(info.data["data_dir"] / "artifacts")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """`Settings(...)` ignores the environment; only `from_environment` reads it."""
        return (init_settings,)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Reads `D4_…` variables; an empty variable counts as not set."""
        source = EnvSettingsSource(cls)
        source.env_vars = {
            name.lower(): text.strip() for name, text in environ.items() if text.strip()
        }
        values = source()
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(_message(error.errors()[0], values)) from None

    def environment(self) -> dict[str, str]:
        """The variables that give another process the same settings."""
        return {
            _variable(name): str(getattr(self, name))
            for name in type(self).model_fields
            if getattr(self, name) is not None
        }


def setting_rows() -> list[SettingRow]:
    """Every setting with its default and meaning, in the order of the documentation."""
    rows = []
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        shown = extra.get("shown") if isinstance(extra, dict) else None
        default = str(shown) if shown else f"`{field.default}`"
        rows.append(SettingRow(_variable(name), default, field.description or ""))
    return rows


def _variable(field: str) -> str:
    return f"{_ENV_PREFIX}{field.upper()}"


_ALLOWED = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "bool_parsing": "one of on, off, true, false, 1, 0",
    "literal_error": "one of {expected}",
}


def _message(error: ErrorDetails, values: Mapping[str, object]) -> str:
    name = str(error["loc"][0])
    if name == "redis_url":  # do not show the value: it may hold a password
        return f"{_variable(name)} {error['msg'].removeprefix('Value error, ')}"
    allowed = _ALLOWED.get(error["type"], error["msg"]).format(**error.get("ctx", {}))
    return f"{_variable(name)} is {values[name]!r}; it must be {allowed}"
