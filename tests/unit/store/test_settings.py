from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from store.errors import SettingsError
from store.settings import Settings, setting_rows

TABLE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_database_and_artifacts_default_to_the_data_folder() -> None:
    settings = Settings.from_environment({"D4_DATA_DIR": "/srv/d4"})
    assert settings.database_url == "sqlite:////srv/d4/d4explain.sqlite"
    assert settings.artifacts == "/srv/d4/artifacts"
    assert settings.redis_url is None
    assert settings.port == 8400


def test_a_relative_data_folder_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.from_environment({}).data_dir == tmp_path / ".d4explain"


def test_values_are_parsed_by_type() -> None:
    settings = Settings.from_environment(
        {"D4_PORT": "9000", "D4_LEASE_SECONDS": "2.5", "D4_LOG_LEVEL": "debug", "D4_HOST": " "}
    )
    assert settings.port == 9000
    assert settings.lease_seconds == 2.5
    assert settings.log_level == "DEBUG"
    assert settings.host == "127.0.0.1"


def test_a_switch_is_parsed_and_passed_to_other_processes() -> None:
    assert Settings.from_environment({}).black_box is False
    for text, on in (("on", True), ("0", False), ("TRUE", True)):
        settings = Settings.from_environment({"D4_BLACK_BOX": text})
        assert settings.black_box is on
        assert Settings.from_environment(settings.environment()).black_box is on


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("D4_PORT", "http"),
        ("D4_PORT", "8400.5"),
        ("D4_PORT", "70000"),
        ("D4_MAX_NODES", "0"),
        ("D4_MAX_NODES", "-3"),
        ("D4_LEASE_SECONDS", "inf"),
        ("D4_LEASE_SECONDS", "nan"),
        ("D4_LOG_LEVEL", "loud"),
        ("D4_BLACK_BOX", "maybe"),
    ],
)
def test_an_invalid_value_is_refused_with_its_variable(env: str, text: str) -> None:
    with pytest.raises(SettingsError, match=env) as refused:
        Settings.from_environment({env: text})
    assert repr(text) in str(refused.value)


def test_an_unsupported_broker_is_refused_without_its_password() -> None:
    with pytest.raises(SettingsError, match="D4_REDIS_URL must begin with") as refused:
        Settings.from_environment({"D4_REDIS_URL": "amqp://me:secret@host"})
    assert "secret" not in str(refused.value)


def test_the_environment_restores_the_same_settings() -> None:
    settings = Settings.from_environment({"D4_DATA_DIR": "/srv/d4", "D4_LEASE_SECONDS": "3"})
    assert Settings.from_environment(settings.environment()) == settings


def test_settings_are_hashable_and_picklable() -> None:
    settings = Settings(data_dir=Path("/srv/d4"), port=9000)
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert hash(copy) == hash(settings)


def test_the_constructor_ignores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D4_PORT", "9000")
    assert Settings().port == 8400
    assert Settings.from_environment().port == 9000


def test_the_documentation_lists_all_settings() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        for line in TABLE.read_text().splitlines()
        if line.startswith("| `D4_")
    ]
    assert rows == [(f"`{row.env}`", row.default, row.meaning) for row in setting_rows()]


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1",
        "redis://:p@localhost/0",
        "rediss://[::1]:1/0",
        "redis+socket:///run/redis.sock",
    ],
)
def test_sqlite_allows_a_broker_of_this_machine(url: str) -> None:
    assert Settings.from_environment({"D4_REDIS_URL": url}).redis_url == url


@pytest.mark.parametrize("host", ["redis", "10.0.0.1", "127.0.0.1.example.org"])
def test_sqlite_refuses_a_broker_that_workers_elsewhere_could_use(host: str) -> None:
    environment = {"D4_REDIS_URL": f"redis://:sesame@{host}:6379/0"}
    with pytest.raises(SettingsError, match=r"D4_REDIS_URL names another machine") as refused:
        Settings.from_environment(environment)
    assert "sesame" not in str(refused.value)
    server = {"D4_DATABASE_URL": "postgresql+psycopg://d4@db/d4"}
    assert Settings.from_environment({**environment, **server}).redis_url is not None
