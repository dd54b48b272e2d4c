"""Settings, catalog, keys and tokens in force: checked, with history and audit, in the feed."""

import random

import msgspec
import pytest

from llmgw.base.errors import Conflict, NotFound, Refused, Unreachable, Unreadable
from llmgw.control.behind import BACKLOG
from llmgw.control.credentials import id_of, make, matches
from llmgw.control.events import KEPT
from llmgw.control.plane import Plane
from llmgw.model.events import Event
from llmgw.model.faulty import Faulty
from llmgw.model.feed import EVENTS, KEYS, MODELS, SETTINGS
from llmgw.model.keys import ADMIN, READ
from llmgw.model.settings import Settings
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, opened, running


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


def marked(plane: Plane, topic: str, since: int) -> list[str]:
    """Return what changed in a topic since a number of the feed."""
    position = plane.feed.position()
    with plane.feed.follow([topic], type(position)(epoch=position.epoch, number=since)) as follower:
        batch = follower.take()
    assert batch is not None
    return [change.id for change in batch.changes]


# Settings.


async def test_a_setting_is_put_by_its_path_with_history_and_audit(
    plane: Plane, store: MemoryStore
) -> None:
    async with opened(plane):
        number = plane.feed.number
        stored = await plane.settings.put("link.lost_after", 90.0, actor="ada")
        assert (stored.version, stored.settings.link.lost_after) == (1, 90.0)
        assert plane.settings.current is stored
        history = await store.settings_history()
        assert [(h.path, h.actor, h.after) for h in history] == [("link.lost_after", "ada", "90.0")]
        assert marked(plane, SETTINGS, number) == ["cluster"]


async def test_gateways_are_told_of_their_settings_alone(plane: Plane) -> None:
    async with opened(plane):
        number = plane.feed.number
        await plane.settings.put("gateway.idle_timeout", 60.0, actor="ada")
        assert marked(plane, SETTINGS, number) == ["cluster", "gateway"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("link.lost_aftr", 3.0, "link.lost_aftr: no such field"),
        ("lnk.lost_after", 3.0, "lnk.lost_after: no such setting"),
        ("link.lost_after", "soon", "must be a number, is text"),
        ("Link..x", 1, "is not a path"),
        ("link.lost_after", 1.0, "1 is not between 15 and 86400"),
        (
            "engines.llamacpp.builds",
            [{"version": "1", "program": "../../bin/sh"}],
            "engines.llamacpp.builds[0]: '../../bin/sh' must lie inside the packages",
        ),
        (
            "engines.llamacpp.builds",
            [{"version": "1", "launcher": "bash"}],
            "builds[0].launcher: 'bash' is not '' or 'xllamacpp'",
        ),
        ("engines.llamacpp.builds", [], "at least one build is needed"),
    ],
)
async def test_what_does_not_fit_is_refused_with_its_path_and_nothing_changes(
    plane: Plane, store: MemoryStore, path: str, value: object, words: str
) -> None:
    async with opened(plane):
        with pytest.raises(Unreadable) as refused:
            await plane.settings.put(path, value, actor="ada")
        assert words in refused.value.message
        assert plane.settings.current.version == (await store.settings()).version == 0


async def test_every_problem_is_named(plane: Plane) -> None:
    async with opened(plane):
        with pytest.raises(Faulty) as refused:
            await plane.settings.put(
                "link", {"heartbeat_interval": 0.0, "lost_after": -1.0}, actor="ada"
            )
        paths = [problem.path for problem in refused.value.problems]
        assert paths == ["link.heartbeat_interval", "link.lost_after"]


async def test_what_does_not_fit_is_named_beside_what_is_out_of_bounds(plane: Plane) -> None:
    async with opened(plane):
        with pytest.raises(Faulty) as refused:
            await plane.settings.put(
                "link",
                {"heartbeat_interval": 1000.0, "lost_after": "soon", "request_dedline": 1},
                actor="ada",
            )
        assert [(one.path, one.words) for one in refused.value.problems] == [
            ("link.lost_after", "must be a number, is text"),
            ("link.request_dedline", "no such field; did you mean 'request_deadline'?"),
            ("link.heartbeat_interval", "1000 is not between 0.2 and 300"),
        ]


@pytest.mark.parametrize("path", ["reconcile.drain_limit", "gateway.held_most", "gateway.held_for"])
async def test_what_can_not_be_negative_is_refused(plane: Plane, path: str) -> None:
    async with opened(plane):
        with pytest.raises(Faulty, match=f"{path}: -1 is not between 0 and"):
            await plane.settings.put(path, -1, actor="ada")


async def test_none_puts_the_default_back(plane: Plane) -> None:
    async with opened(plane):
        await plane.settings.put("link.lost_after", 90.0, actor="ada")
        await plane.settings.put("link.lost_after", None, actor="ada")
        assert plane.settings.current.settings == Settings()
        await plane.settings.put("engines", {}, actor="ada")
        await plane.settings.put("engines", None, actor="ada")
        assert plane.settings.current.settings == Settings()


async def test_the_clusters_name_is_in_its_certificates_and_stays(plane: Plane) -> None:
    async with opened(plane):
        with pytest.raises(Refused, match="certificate"):
            await plane.settings.put("cluster.name", "other", actor="ada")


async def test_the_same_value_again_makes_no_version(plane: Plane) -> None:
    async with opened(plane):
        number = plane.feed.number
        stored = await plane.settings.put("link.lost_after", 60.0, actor="ada")
        assert stored.version == 0
        assert plane.feed.number == number


# Catalog.


async def test_a_model_is_put_replaced_at_its_version_and_removed(plane: Plane) -> None:
    async with opened(plane):
        number = plane.feed.number
        entry = await plane.catalog.put(cpu_model(), 0, actor="ada")
        assert (entry.version, entry.changed_by) == (1, "ada")
        with pytest.raises(Conflict):
            await plane.catalog.put(cpu_model(replicas=2), 0, actor="ada")
        again = await plane.catalog.put(cpu_model(replicas=2), entry.version, actor="ada")
        assert plane.catalog.get("tiny") == again
        assert plane.catalog.entries() == (again,)
        await plane.catalog.remove("tiny", actor="ada")
        assert plane.catalog.get("tiny") is None
        assert len(await plane.catalog.history("tiny")) == 2
        assert marked(plane, MODELS, number) == ["tiny"]
        with pytest.raises(NotFound):
            await plane.catalog.remove("tiny", actor="ada")
        with pytest.raises(NotFound, match="never had"):
            await plane.catalog.history("never")


async def test_a_model_with_problems_is_not_stored(plane: Plane, store: MemoryStore) -> None:
    async with opened(plane):
        with pytest.raises(Faulty) as refused:
            await plane.catalog.put(cpu_model(engine_version="1", context=0), None, actor="ada")
        assert [problem.path for problem in refused.value.problems] == ["profiles[0].context"]
        assert await store.models() == ()


async def test_how_many_are_wanted_is_no_part_of_the_fingerprint(plane: Plane) -> None:
    async with opened(plane):
        await plane.catalog.put(cpu_model(), None, actor="ada")
        before = plane.catalog.fingerprint("tiny", "default")
        await plane.catalog.put(cpu_model(replicas=5), None, actor="ada")
        assert plane.catalog.fingerprint("tiny", "default") == before
        await plane.catalog.put(cpu_model(context=100), None, actor="ada")
        assert plane.catalog.fingerprint("tiny", "default") not in {None, before}


async def test_a_whole_number_where_a_fraction_belongs_is_the_same_model(plane: Plane) -> None:
    async with opened(plane):
        await plane.catalog.put(cpu_model(), None, actor="ada")
        before = plane.catalog.fingerprint("tiny", "default")
        profile = msgspec.structs.replace(cpu_model().profiles[0], min_memory_gb=1)
        whole = msgspec.structs.replace(cpu_model(), profiles=(profile,))
        await plane.catalog.put(whole, None, actor="ada")
        assert plane.catalog.fingerprint("tiny", "default") == before


# Keys and tokens.


async def test_a_key_is_shown_once_and_kept_as_a_hash(plane: Plane, store: MemoryStore) -> None:
    async with opened(plane):
        number = plane.feed.number
        key, text = await plane.keys.make(" app ", actor="ada", models=("tiny",), expires_in=60.0)
        assert text.startswith(f"llmgw_{key.id}_")
        assert len(text.rpartition("_")[2]) == 64
        assert matches(text, key.sha256)
        assert (key.name, key.models, key.expires) == ("app", ("tiny",), key.created + 60)
        kept = repr((store.key_rows, store.audited, plane.feed.listing([KEYS])))
        assert text not in kept
        assert marked(plane, KEYS, number) == [key.id]
        await plane.keys.remove(key.id, actor="ada")
        assert plane.keys.all() == ()
        assert [change.record for change in plane.feed.listing([KEYS]).changes] == []
        with pytest.raises(NotFound):
            await plane.keys.remove(key.id, actor="ada")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
async def test_a_key_needs_a_name_that_can_be_shown(plane: Plane, name: str) -> None:
    async with opened(plane):
        with pytest.raises(Unreadable):
            await plane.keys.make(name, actor="ada")


async def test_a_key_that_ended_a_week_ago_is_let_go(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        await plane.keys.make("short", actor="ada", expires_in=60.0)
        await plane.keys.make("long", actor="ada")
        await clock.advance(3600)
        await plane.passes["expire"].run_once()
        assert len(plane.keys.all()) == 2
        await clock.advance(8 * 86_400)
        await plane.passes["expire"].run_once()
        assert [key.name for key in plane.keys.all()] == ["long"]


async def test_a_token_says_who_somebody_is_until_it_ends(plane: Plane, clock: FakeClock) -> None:
    async with opened(plane):
        token, text = await plane.tokens.make(READ, "ci", actor="ada", expires_in=60.0)
        assert plane.tokens.who(text) == token
        for wrong in ("", "llmgw", text[:-1], text + "0", "llmgw_nobody_" + "0" * 64):
            assert plane.tokens.who(wrong) is None
        await clock.advance(61)
        assert plane.tokens.who(text) is None
        with pytest.raises(Unreadable, match="no such role"):
            await plane.tokens.make("root", "x", actor="ada")


async def test_the_last_admin_cannot_lock_everybody_out(plane: Plane) -> None:
    async with opened(plane):
        first, _ = await plane.tokens.make(ADMIN, "one", actor="ada")
        with pytest.raises(Conflict, match="last token of the role admin"):
            await plane.tokens.remove(first.id, actor="ada")
        await plane.tokens.make(ADMIN, "two", actor="ada")
        await plane.tokens.remove(first.id, actor="ada")
        assert [token.name for token in plane.tokens.all()] == ["two"]


def test_two_credentials_never_share_a_secret() -> None:
    rng = random.Random(1)
    one, other = make("a", rng.randbytes), make("a", rng.randbytes)
    assert one.text != other.text
    assert id_of(one.text) == "a"


# Events.


async def test_events_reach_the_store_behind_and_survive_one_that_is_away(
    plane: Plane, store: MemoryStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(event: Event) -> None:
        raise Unreachable("the store is away")

    async with running(plane):
        await settle()
        written = len(store.event_rows)
        with monkeypatch.context() as patch:
            patch.setattr(store, "add_event", away)
            plane.events.add("node", "n1", "something happened")
            await settle()
            assert len(store.event_rows) == written
        await clock.advance(6)
        assert [event.words for event in store.event_rows[written:]] == [
            "something happened",
            "events can't be written into the store: the store is away",
            "the store is written again, after 5.0s",
        ]


async def test_events_in_memory_and_on_their_way_are_bounded(plane: Plane) -> None:
    async with opened(plane):
        for number in range(BACKLOG + KEPT + 5):
            plane.events.add("join", "n1", f"event {number}")
        assert len(plane.events.recent()) == KEPT
        assert len(plane.feed.listing([EVENTS]).changes) == KEPT
        assert plane.events.dropped > 0
        ids = [event.id for event in plane.events.recent()]
        assert ids == sorted(set(ids))


async def test_events_of_an_earlier_start_are_listed_and_ids_go_on_rising(
    plane: Plane, store: MemoryStore, clock: FakeClock
) -> None:
    async with opened(plane):
        plane.events.add("node", "n1", "before")
        await plane.close()
    again = make_plane(clock, store, seed=9)
    async with opened(again):
        again.events.add("node", "n1", "after")
        recent = again.events.recent()
        assert "before" in [event.words for event in recent]
        assert max(recent, key=lambda event: event.id).words == "after"
