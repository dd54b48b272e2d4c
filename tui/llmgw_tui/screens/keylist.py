"""The screen of users' keys: what they used; they are made, changed and revoked here."""

from collections.abc import Iterable, Mapping
from typing import Any

from llmgw.model.keys import Key, UsageSum
from llmgw.model.record import Record
from llmgw.model.standing import KeyStanding
from llmgw_tui import keys
from llmgw_tui.dialogs.confirm import Confirm
from llmgw_tui.dialogs.form import Form
from llmgw_tui.dialogs.reading import Reading
from llmgw_tui.dialogs.secret import ShownOnce
from llmgw_tui.draw import keyform, keylist, keyuse
from llmgw_tui.draw.keylist import KeySeen
from llmgw_tui.draw.places import TRAFFIC, Place
from llmgw_tui.draw.table import Row
from llmgw_tui.draw.text import clean
from llmgw_tui.screens.acting import act, may_act
from llmgw_tui.screens.desk import Desk
from llmgw_tui.screens.lists import ListView
from llmgw_tui.screens.poll import Poll, read
from llmgw_tui.screens.view import Heading
from llmgw_tui.store.fleet import Changes

PERIOD = 5.0

Seen = dict[str, KeySeen]


class KeysView(ListView):
    """All keys, those that were revoked and used lately too."""

    own_keys = keys.KEYS
    title = "Keys"
    columns = keylist.COLUMNS
    first_sort = "name"
    nothing = "no key yet: press a, or `llmgw ctl key add NAME`"

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self._poll = Poll(desk, self, self._ask, PERIOD, self._came)
        self._seen: Seen = {}
        self._news = False

    @property
    def asking(self) -> bool:
        """Say whether a question is on its way."""
        return self._poll.asking

    @property
    def outdated(self) -> bool:
        """Say whether what is shown is older than it should be."""
        return self._poll.value is not None and (bool(self._poll.words) or self._poll.is_old)

    def ids(self) -> Iterable[str]:
        """Return the keys' ids."""
        return self._seen

    def row(self, row_id: str) -> Row | None:
        """Return a key's row."""
        seen = self._seen.get(row_id)
        return None if seen is None else keylist.row(seen, self.desk.when())

    def touched(self, changes: Changes) -> set[str]:
        """Return all keys each minute: they show ages."""
        return set(self._seen) if changes.minute else set()

    def enter(self, place: Place) -> None:
        """Show it, and ask from now on."""
        self._poll.start()
        super().enter(place)

    def leave(self) -> None:
        """Ask no more."""
        self._poll.stop()

    def update(self, changes: Changes) -> None:
        """Take in what was answered since."""
        if changes.connection and self.desk.fleet.connection.state == "live":
            self._poll.start()
        if self._news:
            self._news = False
            self._seen = self._poll.value or {}
            changes.everything = True
            self.desk.repaint_edges()
        super().update(changes)

    def heading(self) -> Heading:
        """Return title, filter, counts, and how old it is when it is not fresh."""
        found = super().heading()
        return found._replace(notes=(*found.notes, *self._poll.note()))

    def do(self, action: str) -> bool:
        """Make, change or revoke a key, show its use, or move."""
        if action == "use":
            self._show_use()
            return True
        own = {"add": self._add, "edit": self._edit, "revoke": self._revoke}
        run = own.get(action)
        if run is None:
            return super().do(action)
        if may_act(self.desk):
            run()
        return True

    def idle(self) -> frozenset[str]:
        """Return the keys that would do nothing here."""
        idle = {"add", "edit", "revoke"} if self.desk.readonly else set()
        if self._key() is None:
            idle |= {"edit", "revoke"}
        return frozenset(idle if self.grid.cursor in self._seen else {*idle, "use"})

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return the key and how it stands."""
        seen = self._seen.get(row_id)
        found = (seen.key, seen.standing) if seen is not None else ()
        return tuple(one for one in found if one is not None)

    def target(self) -> Place | None:
        """Return the key's requests in flight."""
        seen = self._seen.get(self.grid.cursor or "")
        if seen is None or seen.key is None:
            return None
        return Place(TRAFFIC, "", f"key={keylist.as_filter(seen.key.name)}")

    def logs(self) -> Place | None:
        """A key has no log."""
        return None

    def command(self) -> str:
        """Return the command that lists the same."""
        return "llmgw ctl keys --use"

    async def _ask(self) -> Seen:
        client = self.desk.client
        found = read(await client.get("/keys"), tuple[Key, ...])
        return keylist.joined(found, read(await client.get("/key-use"), tuple[KeyStanding, ...]))

    def _came(self) -> None:
        self._news = True

    def _nothing(self) -> str:
        if self._poll.value is None:
            return self._poll.words or "asking the control plane …"
        return self.nothing

    def _key(self) -> Key | None:
        seen = self._seen.get(self.grid.cursor or "")
        return None if seen is None else seen.key

    # Use over time.

    def _show_use(self) -> None:
        seen = self._seen.get(self.grid.cursor or "")
        if seen is not None:
            act(self.desk, self, lambda: self._read_use(seen))

    async def _read_use(self, seen: KeySeen) -> None:
        when, client = self.desk.when(), self.desk.client
        told = [
            read(
                await client.get(
                    "/usage/sums", {"key": seen.id, "since": start, "by": f"{span},key"}
                ),
                tuple[UsageSum, ...],
            )
            for start, span in zip(keyuse.since(when.now), ("hour", "day"), strict=True)
        ]
        used = keyuse.UseSeen(*told)
        title = f"Use of {seen.name if seen.key is not None else clean(seen.id)}"
        self.desk.open_dialog(Reading(title, lambda width: keyuse.body(seen.id, used, when, width)))

    # Changing.

    def _add(self) -> None:
        self.desk.open_dialog(
            Form(
                "Make a key",
                ("It works within a second. The key is shown once and stored nowhere.",),
                keyform.fields(),
                keyform.read,
                agreed=lambda body: act(self.desk, self, lambda: self._make(body)),
                copy=self.desk.copy,
            )
        )

    async def _make(self, body: Mapping[str, Any]) -> None:
        answer = await self.desk.client.post("/keys", dict(body))
        name = clean(str(answer["name"]))
        words = (
            f"This is the key of {name}. It is shown this once: nobody can read it again.",
            "Clients send it as `Authorization: Bearer …` to the gateway.",
        )
        self.desk.open_dialog(ShownOnce("A new key", str(answer["key"]), words, self._copy_secret))
        self._poll.start()

    def _copy_secret(self, secret: str) -> None:
        self.desk.copy(secret, says="copied the key")

    def _edit(self) -> None:
        key = self._key()
        if key is None:
            return
        self.desk.open_dialog(
            Form(
                f"Change {clean(key.name)}",
                ("It acts within a second, on the next request.",),
                keyform.fields(key),
                lambda values: keyform.read(values, key),
                agreed=lambda body: act(self.desk, self, lambda: self._change(key, body)),
                copy=self.desk.copy,
            )
        )

    async def _change(self, key: Key, body: Mapping[str, Any]) -> None:
        await self.desk.client.put(f"/keys/{key.id}", dict(body))
        self.desk.say(f"{key.name} is changed: {', '.join(sorted(body))}")
        self._poll.start()

    def _revoke(self) -> None:
        seen = self._seen.get(self.grid.cursor or "")
        if seen is None or seen.key is None:
            return
        self.desk.open_dialog(
            Confirm(
                f"Revoke {seen.name}",
                keylist.revoking(seen),
                keylist.revoke_command(seen),
                name=seen.name,
                agreed=lambda: act(self.desk, self, lambda: self._remove(seen)),
                copy=self.desk.copy,
            )
        )

    async def _remove(self, seen: KeySeen) -> None:
        await self.desk.client.delete(f"/keys/{seen.id}")
        self.desk.say(f"{seen.name} is revoked")
        self._poll.start()
