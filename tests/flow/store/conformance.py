"""What every implementation of `Store` must do. Inherit `Conformance` and give it a `place`.

A place is where one store lies: every store that it gives out works on the same data.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.model.events import AuditEntry
from llmgw.model.settings import Settings
from llmgw.store.interface import Store, StoredSettings
from tests.flow.store import samples


class Place(Protocol):
    """Where the data lies."""

    def store(self) -> Store:
        """Return a store on the data that is not open yet."""
        ...


async def refused(awaitable: object, error: type[Exception]) -> str:
    """Return the message of the error that an awaitable raises."""
    with pytest.raises(error) as caught:
        await awaitable  # type: ignore[misc]
    return str(caught.value)


class SettingsConformance:
    async def test_settings_that_were_never_written_are_version_0_with_defaults(self, store: Store):
        assert await store.settings() == StoredSettings(version=0, settings=Settings())

    async def test_a_put_raises_the_version_and_is_read_back(self, store: Store):
        written = samples.settings(stopped=True)
        stored = await store.put_settings(written, expected=0, actor="ana", at=5.0)
        assert (stored.version, stored.settings) == (1, written)
        assert await store.settings() == stored

    async def test_a_put_on_another_version_is_a_conflict_and_changes_nothing(self, store: Store):
        await store.put_settings(samples.settings(stopped=True), expected=0, actor="ana", at=5.0)
        late = store.put_settings(samples.settings(interval=9), expected=0, actor="bo", at=6.0)
        assert "version 1, not 0" in await refused(late, Conflict)
        assert (await store.settings()).settings == samples.settings(stopped=True)
        assert len(await store.audit()) == 1

    async def test_of_two_puts_at_once_one_wins(self, store: Store):
        answers = await asyncio.gather(
            *(
                store.put_settings(samples.settings(interval=n), expected=0, actor="ana", at=1.0)
                for n in (6, 7)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Conflict) for answer in answers) == 1
        assert (await store.settings()).version == 1

    async def test_every_path_that_changed_is_in_the_history_and_no_other(self, store: Store):
        written = samples.settings(stopped=True, interval=2.0)
        await store.put_settings(written, expected=0, actor="ana", at=5.0)
        changes = await store.settings_history()
        assert {(c.path, c.before, c.after) for c in changes} == {
            ("serving.stopped", "false", "true"),
            ("link.heartbeat_interval", "5.0", "2.0"),
        }
        assert {(c.version, c.actor, c.at) for c in changes} == {(1, "ana", 5.0)}

    async def test_history_is_newest_first_and_at_or_below_the_path(self, store: Store):
        for version, interval in enumerate((2.0, 3.0)):
            await store.put_settings(
                samples.settings(interval=interval), expected=version, actor="ana", at=1.0
            )
        await store.put_settings(samples.settings(), expected=2, actor="ana", at=1.0)
        below = await store.settings_history("link")
        assert [c.after for c in below] == ["5.0", "3.0", "2.0"]
        assert await store.settings_history("link.heartbeat_interval", limit=2) == below[:2]
        assert await store.settings_history("link.heart") == ()

    async def test_settings_that_differ_in_nothing_stay_at_their_version(self, store: Store):
        stored = await store.put_settings(Settings(), expected=0, actor="ana", at=1.0)
        assert stored.version == 0
        assert await store.audit() == ()

    async def test_an_entry_that_goes_has_no_value_after(self, store: Store):
        await store.put_settings(Settings(engines={}), expected=0, actor="ana", at=1.0)
        gone = [c for c in await store.settings_history("engines.llamacpp") if c.after is None]
        assert any(c.path == "engines.llamacpp.builds" for c in gone)


class CatalogConformance:
    async def test_a_model_is_added_replaced_and_read_back_with_its_version(self, store: Store):
        first = await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
        second = await store.put_model(samples.model(replicas=2), expected=1, actor="bo", at=2.0)
        assert (first.version, second.version, second.changed_by) == (1, 2, "bo")
        assert await store.models() == (second,)
        assert await store.model_history("qwen") == (second, first)

    async def test_models_come_by_name_whatever_the_name_holds(self, store: Store):
        names = ["z/a:b.c", "a b", "Ä", "'; DROP TABLE models; --"]
        for name in names:
            await store.put_model(samples.model(name), expected=0, actor="ana", at=1.0)
        assert [e.model.name for e in await store.models()] == sorted(names)

    @pytest.mark.parametrize("expected", [0, 2])
    async def test_another_version_than_expected_is_a_conflict(self, store: Store, expected: int):
        await store.put_model(samples.model(), expected=None, actor="ana", at=1.0)
        late = store.put_model(samples.model(replicas=3), expected=expected, actor="bo", at=2.0)
        assert "version 1" in await refused(late, Conflict)
        assert [e.model.profiles[0].replicas for e in await store.models()] == [1]

    async def test_a_version_of_a_model_that_is_not_there_is_a_conflict(self, store: Store):
        absent = store.put_model(samples.model(), expected=3, actor="ana", at=1.0)
        assert "not in the catalog" in await refused(absent, Conflict)

    async def test_a_removed_model_is_gone_and_its_version_is_never_used_again(self, store: Store):
        await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
        await store.remove_model("qwen", actor="bo", at=2.0)
        assert await store.models() == ()
        again = await store.put_model(samples.model(), expected=0, actor="ana", at=3.0)
        assert again.version == 2
        assert [e.version for e in await store.model_history("qwen")] == [2, 1]

    async def test_removing_what_is_not_there_is_not_found(self, store: Store):
        await refused(store.remove_model("qwen", actor="ana", at=1.0), NotFound)

    async def test_the_same_model_again_changes_nothing(self, store: Store):
        first = await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
        assert await store.put_model(samples.model(), expected=1, actor="bo", at=2.0) == first
        assert len(await store.audit()) == 1


class CredentialConformance:
    async def test_keys_are_kept_by_id_and_listed_by_name(self, store: Store):
        await store.put_key(samples.key("k2", name="zoe"), actor="ana", at=1.0)
        await store.put_key(samples.key("k1", name="bo"), actor="ana", at=1.0)
        await store.put_key(samples.key("k2", name="abe"), actor="ana", at=2.0)
        assert [(k.id, k.name) for k in await store.keys()] == [("k2", "abe"), ("k1", "bo")]
        await store.remove_key("k1", actor="ana", at=3.0)
        assert [k.id for k in await store.keys()] == ["k2"]
        await refused(store.remove_key("k1", actor="ana", at=3.0), NotFound)

    async def test_tokens_are_kept_by_id_and_removed(self, store: Store):
        await store.put_token(samples.token(), actor="ana", at=1.0)
        assert await store.tokens() == (samples.token(),)
        await store.remove_token("t1", actor="ana", at=2.0)
        assert await store.tokens() == ()
        await refused(store.remove_token("t1", actor="ana", at=2.0), NotFound)

    async def test_a_join_token_works_once(self, store: Store):
        await store.put_join_token(samples.join_token(), actor="ana", at=1.0)
        used = await store.use_join_token("j1", at=2.0)
        assert (used.used, used.subject) == (2.0, "gpu-01")
        assert await store.join_token("j1") == used
        assert "was used before" in await refused(store.use_join_token("j1", at=3.0), Refused)

    async def test_of_many_users_of_a_join_token_at_once_one_gets_it(self, store: Store):
        await store.put_join_token(samples.join_token(), actor="ana", at=1.0)
        answers = await asyncio.gather(
            *(store.use_join_token("j1", at=2.0) for _ in range(20)), return_exceptions=True
        )
        assert sum(isinstance(answer, Refused) for answer in answers) == 19

    async def test_a_join_token_that_ended_or_is_not_there_is_refused(self, store: Store):
        await store.put_join_token(samples.join_token(expires=10.0), actor="ana", at=1.0)
        assert "has ended" in await refused(store.use_join_token("j1", at=10.0), Refused)
        assert (await store.join_token("j1")).used is None
        await refused(store.use_join_token("j2", at=1.0), NotFound)
        await refused(store.join_token("j2"), NotFound)

    async def test_a_join_token_of_an_id_that_is_taken_is_a_conflict(self, store: Store):
        await store.put_join_token(samples.join_token(), actor="ana", at=1.0)
        again = store.put_join_token(samples.join_token(subject="x"), actor="ana", at=1.0)
        await refused(again, Conflict)
        assert (await store.join_token("j1")).subject == "gpu-01"

    async def test_the_first_secret_of_a_name_stays(self, store: Store):
        made = bytes(range(256))
        assert await store.secret("engines", made) == made
        assert await store.secret("engines", b"other") == made
        assert await store.secret("another", b"other") == b"other"


class NodeConformance:
    async def test_a_node_keeps_when_it_was_first_seen_and_its_wish(self, store: Store):
        await store.put_node(samples.node(first=1.0, last=1.0))
        await store.set_wish("gpu-01", "draining", actor="ana", at=2.0)
        await store.put_node(samples.node(first=9.0, last=9.0))
        (node,) = await store.nodes()
        assert (node.first_seen, node.last_seen, node.wish) == (1.0, 9.0, "draining")
        await store.set_wish("gpu-01", None, actor="ana", at=2.0)
        assert [n.wish for n in await store.nodes()] == [None]

    async def test_a_wish_for_a_node_that_never_registered_is_not_found(self, store: Store):
        await refused(store.set_wish("gpu-09", "cordoned", actor="ana", at=1.0), NotFound)

    async def test_removing_a_node_denies_its_certificates_and_no_others(self, store: Store):
        await store.put_node(samples.node())
        for serial, role, subject in (
            ("01", "node", "gpu-01"),
            ("02", "node", "gpu-01"),
            ("03", "node", "gpu-02"),
            ("04", "gateway", "gpu-01"),
        ):
            await store.put_certificate(samples.certificate(serial, role=role, subject=subject))
        assert await store.denied() == frozenset()
        assert await store.remove_node("gpu-01", actor="ana", at=2.0) == ("01", "02")
        assert await store.denied() == {"01", "02"}
        assert await store.nodes() == ()

    async def test_a_node_that_joins_again_has_a_certificate_that_is_not_denied(self, store: Store):
        await store.put_certificate(samples.certificate("01"))
        await store.remove_node("gpu-01", actor="ana", at=2.0)
        await store.put_certificate(samples.certificate("02"))
        assert await store.denied() == {"01"}

    async def test_removing_a_node_that_nobody_knows_is_not_found(self, store: Store):
        await refused(store.remove_node("gpu-01", actor="ana", at=1.0), NotFound)

    async def test_a_serial_of_another_subject_is_a_conflict(self, store: Store):
        await store.put_certificate(samples.certificate())
        await store.put_certificate(samples.certificate())
        other = store.put_certificate(samples.certificate(subject="gpu-02"))
        await refused(other, Conflict)


class RecordConformance:
    async def test_events_are_kept_once_by_id_and_come_oldest_first(self, store: Store):
        for number in (1, 2, 3, 3):
            await store.add_event(samples.event(f"e{number}", at=float(number)))
        assert [e.id for e in await store.events(since=2.0)] == ["e2", "e3"]
        assert [e.id for e in await store.events(since=0.0, limit=2)] == ["e2", "e3"]

    async def test_every_persons_change_is_audited_with_actor_and_values(self, store: Store):
        await store.put_settings(samples.settings(stopped=True), expected=0, actor="a1", at=1.0)
        await store.put_model(samples.model(), expected=0, actor="a2", at=2.0)
        await store.put_model(samples.model(replicas=2), expected=1, actor="a3", at=3.0)
        await store.remove_model("qwen", actor="a4", at=4.0)
        await store.put_key(samples.key(), actor="a5", at=5.0)
        await store.remove_key("k1", actor="a6", at=6.0)
        await store.put_token(samples.token(), actor="a7", at=7.0)
        await store.remove_token("t1", actor="a8", at=8.0)
        await store.put_join_token(samples.join_token(), actor="a9", at=9.0)
        await store.put_node(samples.node())
        await store.set_wish("gpu-01", "cordoned", actor="a10", at=10.0)
        await store.remove_node("gpu-01", actor="a11", at=11.0)
        entries = list(reversed(await store.audit()))
        assert [e.actor for e in entries] == [f"a{n}" for n in range(1, 12)]
        assert [e.at for e in entries] == [float(n) for n in range(1, 12)]
        assert (entries[0].subject, entries[0].before, entries[0].after) == (
            "serving.stopped",
            "false",
            "true",
        )
        assert '"replicas":1' in (entries[2].before or "")
        assert '"replicas":2' in (entries[2].after or "")
        assert entries[3].after is None
        assert await store.verify_audit() is None

    async def test_no_secret_and_no_hash_is_shown_in_the_audit(self, store: Store):
        secret = "s3cret-value-of-nobody"
        hidden = samples.model(arguments=("--api-key", secret, f"--hf-token={secret}", "--port"))
        await store.put_model(hidden, expected=0, actor="ana", at=1.0)
        await store.put_key(samples.key(), actor="ana", at=1.0)
        await store.put_join_token(samples.join_token(), actor="ana", at=1.0)
        await store.put_audit(
            AuditEntry(at=1.0, actor="ana", action="x", subject="y", after=f"Bearer {secret}")
        )
        shown = repr(await store.audit())
        assert secret not in shown
        assert "ab" * 32 not in shown
        assert "ef" * 32 not in shown
        assert "--port" in shown

    async def test_audit_is_newest_first_up_to_the_limit(self, store: Store):
        for number in range(5):
            await store.put_audit(
                AuditEntry(at=float(number), actor="ana", action="shown", subject=f"s{number}")
            )
        assert [e.subject for e in await store.audit(limit=2)] == ["s4", "s3"]


class Conformance(
    SettingsConformance,
    CatalogConformance,
    CredentialConformance,
    NodeConformance,
    RecordConformance,
):
    """Everything above, on an open store named `first`."""

    @pytest.fixture
    async def store(self, place: Place) -> AsyncIterator[Store]:
        store = place.store()
        await store.open("first")
        yield store
        await store.close()
