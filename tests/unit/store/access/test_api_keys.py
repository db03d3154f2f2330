from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from store.access import api_keys
from store.access.api_keys import NewKey
from store.database.sessions import Database, read_clock
from store.database.tables.access import ApiKey
from store.errors import Conflict, NotFound


def new_key(session: Session, tenant: str = DEFAULT_TENANT, seconds: float | None = None) -> NewKey:
    return api_keys.create(
        session, tenant=tenant, name="a key", scopes=[Scope.READ, Scope.EXPLAIN], seconds=seconds
    )


def test_a_key_has_256_random_bits_of_which_only_the_hash_is_stored(
    database: Database, tmp_path: Path
) -> None:
    with database.transaction() as session:
        texts = {new_key(session).text for _ in range(50)}
    secrets = {text.rsplit("_", 1)[1] for text in texts}
    assert len(secrets) == 50
    assert {len(bytes.fromhex(secret)) for secret in secrets} == {32}
    with database.reading() as session:
        rows = session.scalars(select(ApiKey)).all()
    stored = " ".join(str(vars(row)) for row in rows)
    assert not any(secret in stored for secret in secrets)
    assert {row.prefix for row in rows} == {text.rsplit("_", 1)[0] for text in texts}


def test_only_the_exact_text_of_a_valid_key_is_accepted(database: Database) -> None:
    with database.transaction() as session:
        new, other = new_key(session), new_key(session, "another")
        found = api_keys.authenticate(session, new.text)
        assert found is not None
        assert (found.id, found.tenant_id, found.scopes) == (
            *(new.row.id, DEFAULT_TENANT),
            ["read", "explain"],
        )
        mixed = f"{new.row.prefix}_{other.text.rsplit('_', 1)[1]}"
        for wrong in (mixed, new.text[:-1], f"{new.text}0", new.text.upper(), "", "d4", "é" * 80):
            assert api_keys.authenticate(session, wrong) is None, wrong


def test_expired_and_revoked_keys_are_refused(database: Database) -> None:
    with database.transaction() as session:
        expiring, revoked = new_key(session, seconds=60), new_key(session)
        assert api_keys.authenticate(session, expiring.text) is not None
        session.execute(
            update(ApiKey)
            .where(ApiKey.id == expiring.row.id)
            .values(expires_at=read_clock(session) - 1)
        )
        api_keys.revoke(session, revoked.row.id, DEFAULT_TENANT)
        first = revoked.row.revoked_at
        assert api_keys.revoke(session, revoked.row.id, DEFAULT_TENANT).revoked_at == first
        session.expire_all()
        for dead in (expiring, revoked):
            assert api_keys.authenticate(session, dead.text) is None
            with pytest.raises(Conflict, match="revoked or expired"):
                api_keys.rotate(session, dead.row.id, DEFAULT_TENANT, overlap_seconds=60)
        assert api_keys.exist(session)  # so the deployment stays closed


def test_rotation_lets_both_keys_work_during_the_overlap(database: Database) -> None:
    with database.transaction() as session:
        old = new_key(session, seconds=1000)
        new = api_keys.rotate(session, old.row.id, DEFAULT_TENANT, overlap_seconds=300)
        at = read_clock(session)
        assert all(api_keys.authenticate(session, key.text) for key in (old, new))
        assert (new.row.name, new.row.scopes) == (old.row.name, old.row.scopes)
        assert new.row.rotated_from == old.row.id
        assert old.row.expires_at == pytest.approx(at + 300, abs=5)
        assert new.row.expires_at == pytest.approx(at + 1000, abs=5)
        longer = api_keys.rotate(session, new.row.id, DEFAULT_TENANT, overlap_seconds=1e6)
        assert new.row.expires_at == pytest.approx(at + 1000, abs=5)  # rotation prolongs nothing
        at_once = api_keys.rotate(session, longer.row.id, DEFAULT_TENANT, overlap_seconds=0)
        assert api_keys.authenticate(session, longer.text) is None
        assert api_keys.authenticate(session, at_once.text) is not None


def test_tenants_see_and_end_only_their_own_keys(database: Database) -> None:
    with database.transaction() as session:
        mine, theirs = new_key(session).row, new_key(session, "another").row
        assert [row.id for row in api_keys.page(session, tenant="another").items] == [theirs.id]
        assert [row.id for row in api_keys.all_keys(session, DEFAULT_TENANT)] == [mine.id]
        assert {row.id for row in api_keys.all_keys(session)} == {mine.id, theirs.id}
        for act in (api_keys.get, api_keys.revoke):
            with pytest.raises(NotFound):
                act(session, mine.id, "another")
        with pytest.raises(NotFound):
            api_keys.rotate(session, mine.id, "another", overlap_seconds=0)


def test_the_time_of_use_is_written_once_a_minute(database: Database) -> None:
    with database.transaction() as session:
        row = new_key(session).row

        def note() -> float | None:
            api_keys.note_use(session, row.id)
            session.refresh(row)
            return row.last_used_at

        first = note()
        assert first is not None
        assert note() == first
        row.last_used_at = first - api_keys.LAST_USE_SECONDS - 1
        session.flush()
        assert note() >= first


def test_a_chosen_key_is_made_once(database: Database) -> None:
    text, other = api_keys.new_text(), api_keys.new_text()
    clash = f"{text.rsplit('_', 1)[0]}_{other.rsplit('_', 1)[1]}"
    with database.transaction() as session:
        made = api_keys.ensure(session, text, tenant=DEFAULT_TENANT, name="chosen")
        assert api_keys.ensure(session, text, tenant=DEFAULT_TENANT, name="x").id == made.id
        for wrong, tenant in ((clash, DEFAULT_TENANT), (text, "another")):
            with pytest.raises(Conflict, match="choose another key"):
                api_keys.ensure(session, wrong, tenant=tenant, name="x")


@pytest.mark.parametrize("tenant", ["", "A", "-a", "a b", "a" * 64, "ä", "a/b", ".."])
def test_tenants_have_names_that_fit_into_paths(database: Database, tenant: str) -> None:
    with database.transaction() as session, pytest.raises(InvalidInput, match="tenant is"):
        new_key(session, tenant)
