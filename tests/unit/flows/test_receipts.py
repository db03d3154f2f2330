"""Receipts and the audit log from the API to the command that verifies them offline."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.main import main
from d4explain.contracts.receipts import envelopes
from service.signer import Signer
from store import signing
from store.audit import chain
from store.errors import ArtifactCorrupt, SettingsError
from store.store import Store


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture
def explanation(served: Any) -> str:
    posted = served.explanation(explainer="search", aim="minimal", judges="none")
    served.finish_explanation(posted)
    with served.store.database.transaction() as session:
        chain.chain(session)
    return str(posted["id"])


@pytest.fixture
def saved(served: Any, explanation: str, tmp_path: Path, capsys: Any) -> Callable[[str], str]:
    """Files written by the commands, by name."""
    url = str(served.client.base_url)
    commands = {
        "receipt": ("explanations", "receipt", explanation),
        "result": ("explanations", "result", explanation),
        "audit": ("audit-log", "export"),
    }
    for name, command in commands.items():
        assert run(*command, str(tmp_path / name), "--url", url) == 0
    capsys.readouterr()
    assert run("signing-keys", "--url", url) == 0
    (tmp_path / "keys").write_text(capsys.readouterr().out)
    return lambda name: str(tmp_path / name)


def test_what_the_api_signed_is_verified_offline(
    saved: Callable[[str], str], explanation: str, capsys: Any
) -> None:
    key = ("--key", saved("keys"))
    assert run("verify", saved("receipt"), *key, "--result", saved("result")) == 0
    assert f"{explanation}/answers/final" in capsys.readouterr().out
    assert run("verify", saved("audit"), *key) == 0
    assert "is complete up to entry" in capsys.readouterr().out
    log = Path(saved("audit")).read_text().splitlines()
    actions = [json.loads(line)["action"] for line in log[:-1]]
    assert actions[-2:] == ["create_explanation", "store_answer"]


def test_changed_files_are_refused_with_the_reason(
    saved: Callable[[str], str], capsys: Any
) -> None:
    key = ("--key", saved("keys"))
    result = Path(saved("result"))
    result.write_bytes(result.read_bytes().replace(b'"seed":7', b'"seed":8'))
    code = run("verify", saved("receipt"), *key, "--result", saved("result"))
    assert code == ExitCode.DIFFERENT
    assert "differs in: seed" in capsys.readouterr().out
    log = Path(saved("audit"))
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[1:]))
    assert run("verify", saved("audit"), *key, "--json") == ExitCode.DIFFERENT
    shown = json.loads(capsys.readouterr().out)
    assert shown["verified"] is False
    assert "line 1 has position 2; expected 1" in shown["detail"]
    assert run("verify", saved("audit"), *key, "--result", saved("result")) == ExitCode.ERROR
    assert run("verify", saved("receipt"), "--key", saved("receipt")) == ExitCode.ERROR
    assert run("verify", saved("receipt"), *key, "--head", saved("keys")) == ExitCode.ERROR
    assert run("verify", saved("nothing"), *key) == ExitCode.ERROR


def test_a_signature_is_repeated_until_the_key_changes(api: Any) -> None:
    posted = api.explanation(explainer="search", aim="minimal", judges="none")
    path = f"/v1/explanations/{posted['id']}/receipt"
    assert api.client.get(path).status_code == 409
    api.finish_explanation(posted)
    first = api.client.get(path)
    assert api.client.get(path).content == first.content
    assert api.client.get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 304

    file = api.store.settings.data_dir / "signing-key.pem"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    rotated = Signer(api.store)
    (old,) = api.client.get("/v1/signing-keys").json()["keys"]
    assert rotated.key_id != old["id"]
    keys = api.client.get("/v1/signing-keys").json()["keys"]
    assert {key["id"] for key in keys} == {old["id"], rotated.key_id}
    pem = "".join(key["public_key"] for key in keys).encode()
    said = envelopes.opened(first.content, envelopes.public_keys(pem), envelopes.RECEIPT)
    answer = api.client.get(f"/v1/explanations/{posted['id']}").json()["answers"][0]
    assert said.sha256 == answer["sha256"]


def test_a_damaged_answer_is_not_signed(opened_store: Store, api: Any) -> None:
    posted = api.explanation(explainer="search", aim="minimal", judges="none")
    api.finish_explanation(posted)
    answer = api.client.get(f"/v1/explanations/{posted['id']}").json()["answers"][0]
    folder = opened_store.artifacts.folder
    assert folder is not None
    (file,) = folder.rglob(answer["sha256"])
    os.chmod(file, 0o600)
    file.write_bytes(file.read_bytes().replace(b'"found":true', b'"found":null'))
    assert api.client.get(f"/v1/explanations/{posted['id']}/receipt").status_code == 500
    with pytest.raises(ArtifactCorrupt):
        opened_store.artifacts.of("default").get(answer["sha256"])


def test_a_key_that_cannot_sign_is_named(opened_store: Store, tmp_path: Path) -> None:
    def settings(path: Path) -> Any:
        return opened_store.settings.model_copy(update={"signing_key": str(path)})

    with pytest.raises(SettingsError, match="cannot read the signing key"):
        signing.signing_key(settings(tmp_path / "missing.pem"))
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no key")
    with pytest.raises(SettingsError, match="not a private key in PEM form"):
        signing.signing_key(settings(garbage))
    other = tmp_path / "p256.pem"
    other.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(SettingsError, match="is not an Ed25519 key"):
        signing.signing_key(settings(other))
