"""The key by which a deployment signs receipts; its public keys are kept in the database."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from d4explain.contracts.receipts.envelopes import key_id, public_pem
from store.database import audit_entries
from store.database.tables.audit import SigningKey
from store.errors import SettingsError
from store.settings import Settings

_FILE = "signing-key.pem"


def signing_key(settings: Settings) -> Ed25519PrivateKey:
    """The key of `D4_SIGNING_KEY`, else that of the data folder, which the first call creates."""
    if settings.signing_key:
        return _read(Path(settings.signing_key).expanduser())
    path = settings.data_dir / _FILE
    if not path.exists():
        _create(path)
    return _read(path)


def publish(session: Session, key: Ed25519PrivateKey) -> None:
    """Adds the public key to those of the deployment; it stays there after a rotation."""
    audit_entries.note_no_change(session)
    public = key.public_key()
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    new = insert(SigningKey).values(id=key_id(public), public_key=public_pem(public))
    session.execute(new.on_conflict_do_nothing())


def published(session: Session) -> list[SigningKey]:
    """All public keys, newest first."""
    newest = select(SigningKey).order_by(SigningKey.first_seen_at.desc(), SigningKey.id)
    return list(session.scalars(newest))


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise SettingsError(f"cannot read the signing key {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingsError(f"{path} is not a private key in PEM form without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"the signing key {path} is not an Ed25519 key")
    return key


def _create(path: Path) -> None:
    """Writes a new key for the owner only; if another process does so too, the first one counts."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
