"""One request and its answer over `http.client`: what a `llmgw ctl` command costs to start.

httpx would double a command's start-up, so it is not used here (`asyncclient` is for what stays
connected). Proxy variables are not read, redirects are not followed: the token goes to the server
of the context and nowhere else.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from llmgw.base.errors import LlmgwError, TimedOut, Unreachable, Unreadable
from llmgw.client.contexts import Context
from llmgw.client.errors import from_answer
from llmgw.client.interface import Decoded, Version, target

if TYPE_CHECKING:
    from llmgw.model.history import NodeHistory

_MOST = 256 << 20
"""Bytes of an answer; a listing of a thousand nodes is a few megabytes."""


class OneShot:
    """A `Client` that opens one connection a request.

    Args:
        context: the control plane and the token.
        timeout: seconds for connecting and between two pieces of the answer. Longer than what the
            control plane gives an agent to answer, so that its words come through.
    """

    def __init__(self, context: Context, *, timeout: float = 30.0) -> None:
        self._context = context
        self._timeout = timeout

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        """Return what is at a path, decoded."""
        return self._call("GET", target(path, query))

    def put(self, path: str, body: object, *, version: Version = None) -> Decoded:
        """Replace what is at a path and return what is there then."""
        return self._call("PUT", target(path), body, version=version)

    def post(self, path: str, body: object = None) -> Decoded:
        """Make something and return it."""
        return self._call("POST", target(path), {} if body is None else body)

    def delete(self, path: str) -> Decoded:
        """Remove what is at a path; returns None."""
        return self._call("DELETE", target(path))

    def history(self, node: str, series: Sequence[str] = (), minutes: int = 60) -> "NodeHistory":
        """Return how a node was in the last minutes; `series`: which measures, empty for all."""
        from llmgw.client import history

        return history.read(self.get(history.path_of(node), history.query_of(series, minutes)))

    def _call(
        self, method: str, url: str, body: object = None, *, version: Version = None
    ) -> Decoded:
        headers = self._headers(version)
        data: bytes | None = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        server = self._context.server
        connection = self._connect()
        try:
            connection.request(method, url, body=data, headers=headers)
            answer = connection.getresponse()
            content = answer.read(_MOST + 1)
            if answer.length and len(content) <= _MOST:
                raise http.client.IncompleteRead(content, answer.length)
        except TimeoutError as error:
            raise TimedOut(
                f"{server} did not answer within {self._timeout:g} s", hint="is it overloaded?"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(server, error) from error
        finally:
            connection.close()
        return read_answer(answer.status, content, server)

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._context.server)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(parts.hostname or "", parts.port, timeout=self._timeout)

    def _headers(self, version: Version) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._context.token is not None:
            headers["Authorization"] = f"Bearer {self._context.token.reveal()}"
        if version is not None:
            headers["If-Match"] = str(version)
        return headers


def read_answer(status: int, content: bytes, server: str) -> Decoded:
    """Return the decoded answer, or raise what it says."""
    if not 200 <= status < 300:
        raise from_answer(status, content, server)
    if len(content) > _MOST:
        raise LlmgwError(f"{server} answered more than {_MOST >> 20} MiB")
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError as error:
        raise Unreadable(
            f"{server} answered something that is not JSON",
            hint="is that llmgw's admin address?",
        ) from error


def _unreachable(server: str, error: Exception) -> Unreachable:
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"nothing listens at {server}", hint="is `llmgw server` running there?")
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unreachable(f"{server} can't be reached: {words}")
