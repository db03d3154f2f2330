"""Everything a deployment can set, read from the environment once."""

# ruff: noqa: RUF009 - `_setting` makes a dataclass field, as `field` does

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from store.errors import SettingsError

MIB = 1024 * 1024


def _setting(env: str, default: Any, meaning: str, *, shown: str | None = None) -> Any:
    return field(default=default, metadata={"env": env, "meaning": meaning, "shown": shown})


class SettingRow(NamedTuple):
    env: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Settings:
    """One deployment's settings; `docs/settings.md` lists them for people."""

    data_dir: Path = _setting(
        "D4_DATA_DIR", Path(".d4explain"), "Folder of the embedded database and artifacts."
    )
    database_url: str = _setting(
        "D4_DATABASE_URL",
        "",
        "SQLAlchemy URL: `sqlite:///…` or `postgresql+psycopg://…`.",
        shown="SQLite file in `D4_DATA_DIR`",
    )
    redis_url: str | None = _setting(
        "D4_REDIS_URL",
        None,
        "Broker: `redis://`, `rediss://` or `redis+socket://`; each deployment needs a database "
        "number of its own.",
        shown="none: `d4explain up` starts its own",
    )
    artifacts: str = _setting(
        "D4_ARTIFACTS",
        "",
        "Where artifacts are kept: a folder or an fsspec URL such as `s3://bucket/prefix`.",
        shown="`artifacts` in `D4_DATA_DIR`",
    )
    device: str = _setting(
        "D4_DEVICE", "auto", "Device of a worker: `auto`, `cpu`, `cuda` or `cuda:<n>`."
    )
    threads: int = _setting(
        "D4_THREADS", 0, "Threads of torch in a worker; 0 takes half of the CPUs it may use."
    )
    host: str = _setting("D4_HOST", "127.0.0.1", "Address the API listens on.")
    port: int = _setting("D4_PORT", 8400, "Port the API listens on.")
    allowed_hosts: str = _setting(
        "D4_ALLOWED_HOSTS",
        "",
        "Further host names the API answers to, comma-separated, besides those of loopback and "
        "`D4_HOST`; `*` is any.",
        shown="none",
    )
    log_level: str = _setting(
        "D4_LOG_LEVEL", "INFO", "`DEBUG`, `INFO`, `WARNING` or `ERROR`; logs are JSON lines."
    )
    lease_seconds: float = _setting(
        "D4_LEASE_SECONDS",
        10.0,
        "How long a silent worker keeps a job; heartbeats come three times as often.",
    )
    max_attempts: int = _setting(
        "D4_MAX_ATTEMPTS", 3, "Attempts before a job fails; a clean shutdown does not count."
    )
    redispatch_seconds: float = _setting(
        "D4_REDISPATCH_SECONDS",
        15.0,
        "First pause before a queued job is announced again; it doubles each time.",
    )
    cancel_grace_seconds: float = _setting(
        "D4_CANCEL_GRACE_SECONDS",
        5.0,
        "How long a canceled job may take to stop by itself before its process is ended.",
    )
    checkpoint_seconds: float = _setting(
        "D4_CHECKPOINT_SECONDS", 10.0, "Time between checkpoints of a training."
    )
    job_time_limit_seconds: float = _setting(
        "D4_JOB_TIME_LIMIT_SECONDS",
        3600.0,
        "Longest run of one attempt; of a training, of all its attempts together.",
    )
    max_training_seconds: float = _setting(
        "D4_MAX_TRAINING_SECONDS",
        1800.0,
        "Longest training that is accepted, as estimated for one CPU core; with a GPU more makes "
        "sense.",
    )
    jobs_at_once: int = _setting(
        "D4_JOBS_AT_ONCE",
        32,
        "Most explanation jobs of one denoiser that a worker claims to run one after the other.",
    )
    queue_hours: float = _setting(
        "D4_QUEUE_HOURS", 24.0, "A job that nobody started within this time expires."
    )
    idempotency_hours: float = _setting(
        "D4_IDEMPOTENCY_HOURS", 24.0, "How long an `Idempotency-Key` is remembered."
    )
    max_body_bytes: int = _setting(
        "D4_MAX_BODY_BYTES", 32 * MIB, "Largest JSON body or samples file."
    )
    max_weights_bytes: int = _setting(
        "D4_MAX_WEIGHTS_BYTES", 64 * MIB, "Largest weights file of a GNN."
    )
    max_nodes: int = _setting("D4_MAX_NODES", 4096, "Most nodes of one graph.")
    max_edges: int = _setting("D4_MAX_EDGES", 32768, "Most edges of one graph.")
    exact_nodes: int = _setting(
        "D4_EXACT_NODES",
        512,
        "Largest graph that is edited at all node pairs; of larger ones candidates are looked at.",
    )
    max_features: int = _setting("D4_MAX_FEATURES", 4096, "Most features of a node.")
    max_graphs_per_request: int = _setting(
        "D4_MAX_GRAPHS_PER_REQUEST",
        256,
        "Most graphs, or nodes, in one explanation; graphs in one prediction; samples of a GNN.",
    )
    max_dataset_graphs: int = _setting(
        "D4_MAX_DATASET_GRAPHS", 20_000, "Most graphs of a reference set."
    )
    max_large_bytes: int = _setting(
        "D4_MAX_LARGE_BYTES", 1024 * MIB, "Largest upload of one large graph."
    )
    max_large_nodes: int = _setting("D4_MAX_LARGE_NODES", 2_000_000, "Most nodes of a large graph.")
    max_large_edges: int = _setting(
        "D4_MAX_LARGE_EDGES", 20_000_000, "Most edges of a large graph."
    )
    max_large_values: int = _setting(
        "D4_MAX_LARGE_VALUES", 256_000_000, "Most feature values of a large graph, of all nodes."
    )
    max_neighbourhood_nodes: int = _setting(
        "D4_MAX_NEIGHBOURHOOD_NODES",
        128,
        "Most nodes of a large graph that are edited to explain one of them; of more, the nearest.",
    )

    black_box: bool = _setting(
        "D4_BLACK_BOX",
        False,
        "Whether GNNs may be registered by a URL that workers ask.",
        shown="off",
    )
    black_box_hosts: str = _setting(
        "D4_BLACK_BOX_HOSTS",
        "",
        "SubgraphIndex that workers may ask, comma-separated: `host` or `host:port`.",
        shown="none",
    )
    black_box_private_hosts: str = _setting(
        "D4_BLACK_BOX_PRIVATE_HOSTS",
        "",
        "Those of them that may be at private, loopback or link-local addresses.",
        shown="none",
    )
    black_box_queries: int = _setting(
        "D4_BLACK_BOX_QUERIES",
        20_000,
        "Most graphs that one job asks a black box about; requests may lower it.",
    )
    black_box_seconds: float = _setting(
        "D4_BLACK_BOX_SECONDS", 10.0, "How long a black box may take for one batch of graphs."
    )

    def __post_init__(self) -> None:
        # Absolute, since API and workers may be started from different folders.
        data_dir = Path(self.data_dir).expanduser().absolute()
        object.__setattr__(self, "data_dir", data_dir)
        if not self.database_url:
            object.__setattr__(self, "database_url", f"sqlite:///{data_dir / 'd4explain.sqlite'}")
        if not self.artifacts:
            object.__setattr__(self, "artifacts", str(data_dir / "artifacts"))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        given = {}
        for setting in fields(cls):
            text = environ.get(setting.metadata["env"], "").strip()
            if text:
                given[setting.name] = _parsed(setting, text)
        return cls(**given)

    def environment(self) -> dict[str, str]:
        """The variables that make another process see these same settings."""
        return {
            setting.metadata["env"]: str(getattr(self, setting.name))
            for setting in fields(self)
            if getattr(self, setting.name) is not None
        }


def setting_rows() -> list[SettingRow]:
    """Every setting with its default and meaning, in the order of the documentation."""
    return [
        SettingRow(
            setting.metadata["env"],
            setting.metadata["shown"] or f"`{setting.default}`",
            setting.metadata["meaning"],
        )
        for setting in fields(Settings)
    ]


_MAY_BE_ZERO = {"threads", "cancel_grace_seconds", "port"}
_LAST_PORT = 65_535
_SWITCH = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_BROKERS = ("redis://", "rediss://", "redis+socket://")


def _parsed(setting: Field[Any], text: str) -> Any:
    env = setting.metadata["env"]
    if isinstance(setting.default, Path):
        return Path(text)
    if setting.name == "log_level":
        if text.upper() not in _LOG_LEVELS:
            raise SettingsError(f"{env} is {text!r}; it must be one of {', '.join(_LOG_LEVELS)}")
        return text.upper()
    if setting.name == "redis_url" and not text.startswith(_BROKERS):
        # Not shown, since it may hold a password.
        raise SettingsError(f"{env} must begin with one of {', '.join(_BROKERS)}")
    if isinstance(setting.default, bool):
        if text.lower() not in _SWITCH:
            raise SettingsError(f"{env} is {text!r}; it must be one of {', '.join(_SWITCH)}")
        return _SWITCH[text.lower()]
    if not isinstance(setting.default, int | float):
        return text
    kind = type(setting.default)
    try:
        number = kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(f"{env} is {text!r}; it must be {wanted}") from None
    smallest_fits = number >= 0 if setting.name in _MAY_BE_ZERO else number > 0
    if not smallest_fits or number == float("inf"):
        raise SettingsError(f"{env} is {text!r}; it must be positive and finite")
    if setting.name == "port" and number > _LAST_PORT:
        raise SettingsError(f"{env} is {text!r}; the last port is {_LAST_PORT}")
    return number
