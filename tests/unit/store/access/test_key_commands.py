from __future__ import annotations

from pathlib import Path

import pytest

from store.__main__ import main
from store.access import api_keys
from store.database.sessions import Database


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> object:
    monkeypatch.setenv("D4_DATA_DIR", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["keys", *arguments])
        printed = capsys.readouterr()
        return code, printed.out.strip(), printed.err

    return run


def test_the_operator_makes_lists_and_revokes_keys(run, tmp_path: Path) -> None:
    code, text, told = run(
        "create", "--tenant", "lab", "--name", "ci", "--scopes", "read", "--days", "2"
    )
    assert code == 0
    assert text not in told  # the key alone is on standard output
    database = Database(f"sqlite:///{tmp_path / 'd4explain.sqlite'}")
    with database.reading() as session:
        key = api_keys.authenticate(session, text)
        assert (key.tenant_id, key.scopes, key.name) == ("lab", ["read"], "ci")
        assert key.expires_at - key.created_at == 2 * 86_400
    _, listed, _ = run("list")
    assert listed.startswith(f"{key.id} {key.prefix} tenant=lab scopes=read 'ci' expires")
    assert run("list", "--tenant", "other")[1] == ""
    assert run("revoke", key.id)[0] == 1  # of the tenant `default`, which has no such key
    assert "revoked" in run("revoke", key.id, "--tenant", "lab")[1]
    with database.reading() as session:
        assert api_keys.authenticate(session, text) is None
    database.close()


def test_a_key_from_the_environment_is_made_once(run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, told = run("ensure")
    assert (code, "D4_API_KEY is not set" in told) == (1, True)
    monkeypatch.setenv("D4_API_KEY", "hunter2")
    code, _, told = run("ensure")
    assert (code, "malformed" in told, "hunter2" in told) == (1, True, False)
    monkeypatch.setenv("D4_API_KEY", api_keys.new_text())
    assert run("ensure") == run("ensure")
    assert len(run("list")[1].splitlines()) == 1


def test_wrong_options_are_refused(run) -> None:
    for wrong in (("--scopes", "root"), ("--days", "-1"), ("--days", "soon")):
        with pytest.raises(SystemExit) as ended:
            run("create", "--name", "x", *wrong)
        assert ended.value.code == 2
    assert run("create", "--name", "x", "--scopes", " , ")[0] == 1
