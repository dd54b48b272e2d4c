"""What an engine is sent of a client's request: a body that it takes, a few lines of the head."""

from llmgw.gateway.proxy.body import (
    Asked,
    ask_for_progress,
    ask_for_stream,
    ask_for_usage,
    rename_model,
    wants_usage,
)
from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.gathered import CHAT, TEXT, can_be_gathered
from llmgw.gateway.proxy.means import Task
from llmgw.gateway.refusals import Refusal
from llmgw.model.catalog import LLAMACPP

_DROPPED = Asked(model="-")


class Outgoing:
    """One request, written anew for each engine that it is sent to.

    What the gateway asks for of its own its client is not shown: `hides_usage` and
    `hides_progress` say so of events, `gathers` of the whole stream.
    """

    __slots__ = (
        "_as_written",
        "_body",
        "_lines",
        "_streams",
        "_task",
        "body",
        "gathers",
        "hides_progress",
        "hides_usage",
    )

    def __init__(self, task: Task) -> None:
        self._task = task
        self._body = task.request.body
        self._lines = _lines(task)
        self._as_written = False
        self.body = b""
        """As it was last written for an engine."""
        self._streams = task.asked.stream is True and task.request.path in {CHAT, TEXT}
        self.hides_usage = self._streams and not wants_usage(task.asked)
        self.hides_progress = False
        self.gathers = False

    def ask_for_usage(self) -> Refusal | None:
        """Ask for what the reply used, where the client did not; return why that can't be done."""
        if self.hides_usage:
            body = ask_for_usage(self._body, self._task.asked)
            if isinstance(body, Refusal):
                return body
            self._body = body
        return None

    def write_for(self, engine: Engine) -> Refusal | None:
        """Write the body for an engine; return why that can't be done."""
        asked = self._task.asked
        body: bytes | Refusal = self._body
        name = engine.endpoint.served_name or self._task.way.model
        if name != asked.model:
            body = rename_model(self._body, asked, name)
        llamacpp = engine.endpoint.engine == LLAMACPP
        self.hides_progress = llamacpp and self._streams and not asked.return_progress
        gathers = llamacpp and engine.gathers and not self._as_written
        self.gathers = gathers and can_be_gathered(self._task.request.path, asked)
        if isinstance(body, Refusal):
            return body
        if self.hides_progress:
            body = ask_for_progress(body)
        self.body = ask_for_stream(body) if self.gathers else body
        return None

    def head_for(self, engine: Engine) -> bytes:
        """Return the head that goes before the body."""
        return engine.head(self._task.request.path, self._lines, len(self.body))

    def keep_as_written(self) -> None:
        """Ask no engine for a stream that the client did not ask for."""
        self._as_written = True

    def drop(self) -> None:
        """Give the memory back: the request goes to no other engine."""
        self._body = self.body = self._lines = b""
        self._task.drop(_DROPPED)  # what was read of the body holds on to all of it


def _lines(task: Task) -> bytes:
    """Return the lines that an engine gets of a client's head: what the body is, and our own id."""
    request = task.request
    lines = b"x-request-id: %b\r\ncontent-type: %b\r\n" % (
        task.request_id,
        request.headers.get(b"content-type", b"application/json"),
    )
    if b"accept" in request.headers:
        lines += b"accept: %b\r\n" % request.headers[b"accept"]
    return lines
