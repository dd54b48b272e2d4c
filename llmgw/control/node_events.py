"""What people are told of nodes: each change once, in words (INV-13)."""

from collections.abc import Callable, Iterable, Sequence

from llmgw.control.events import Events
from llmgw.control.inventory import worse
from llmgw.control.news import differences, recovered, registered
from llmgw.control.probing import news
from llmgw.control.wear import damage
from llmgw.model.events import INFO, PROBLEM, WARNING
from llmgw.model.node import LOST, Heartbeat, Inventory, Node
from llmgw.plan.words import some


class NodeEvents:
    """Tells events of nodes; what a node was before is told here by whoever changed it.

    Args:
        events: where they are told.
    """

    def __init__(self, events: Events) -> None:
        self._events = events

    def tell(self, severity: str, node: str, words: str) -> None:
        """Tell people of a node, in words that go on from its id."""
        self._events.add("node", node, f"{node} {words}", severity=severity)

    def silent(
        self, node: str, verdict: str, silence: str, replicas: Iterable[str], *, alone: bool
    ) -> None:
        """Tell that a node is not heard any more, and what it has.

        Args:
            node: which.
            verdict: `unreachable` or `lost`.
            silence: for how long, in words.
            replicas: those that it has, each as often as it has shards.
            alone: it was not lost together with many others, which are told as one.
        """
        has = [*dict.fromkeys(replicas)]
        words = f"is {verdict}: {silence}" + (f"; it has {some(has)}" if has else "")
        self.tell(PROBLEM if verdict == LOST and alone else WARNING, node, words)

    def registered(self, old: Node, new: Node) -> None:
        """Tell what an agent's new registration changed."""
        self._tell_changes(new.id, registered(old, new))

    def inventory(self, node: str, old: Inventory, new: Inventory) -> None:
        """Tell what changed of what a node has; of the first that is known nothing is news."""
        if old == Inventory():
            return
        severity = WARNING if worse(old, new) else INFO
        self._tell_changes(node, differences(old, new), severity)
        self._tell_changes(node, recovered(old, new))

    def sources(self, node: str, last: Heartbeat | None, newest: Heartbeat) -> None:
        """Tell which of a node's sources of facts fail since its last heartbeat, or work again."""
        for severity, words in news(None if last is None else last.probes, newest.probes):
            self.tell(severity, node, words)

    def damage(
        self,
        node: str,
        last: Heartbeat | None,
        newest: Heartbeat,
        name_of: Callable[[str], str],
    ) -> None:
        """Tell which devices have lasting damage that they had not.

        Args:
            node: whose.
            last: its last heartbeat; None: this is the first since this start, and an earlier
                control plane may have told what it says.
            newest: the newest.
            name_of: what people call one of its devices, by UUID.
        """
        for uuid, words in damage(last, newest):
            told = f"{node} {name_of(uuid)}: {words}"
            if last is not None or not self._events.told(node, told):
                self._events.add("node", node, told, severity=WARNING)

    def _tell_changes(self, node: str, words: Sequence[str], severity: str = INFO) -> None:
        if words:
            self.tell(severity, node, "; ".join(words))
