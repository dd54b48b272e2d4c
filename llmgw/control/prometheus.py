"""Longer histories, from the Prometheus that scrapes this cluster's `/metrics`."""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from llmgw.base.errors import TimedOut, Unreachable, Unreadable
from llmgw.control import ranges
from llmgw.model.history import PROMETHEUS, NodeHistory

if TYPE_CHECKING:
    import httpx

TIMEOUT = 10.0
"""Seconds for all that one history needs: nine questions at the most."""
MOST_BYTES = 16 << 20
"""Of one answer: 128 devices at 360 points are about two megabytes."""


class Prometheus:
    """Asks for ranges of time. Proxy variables are not read and redirects are not followed.

    Args:
        transport: replaces the network in tests and in a simulator.
    """

    def __init__(self, transport: "httpx.AsyncBaseTransport | None" = None) -> None:
        self._transport = transport

    async def history(
        self, url: str, node: str, names: Collection[str], *, minutes: int, now: float
    ) -> NodeHistory:
        """Return how a node was in the last minutes.

        Args:
            url: the setting `prometheus.url`.
            node: its id.
            names: which measures; empty: all.
            minutes: how long.
            now: seconds since the epoch.

        Raises:
            Unreachable, TimedOut: it does not answer.
            Refused: it answered with an error.
            Unreadable: the address is none, or the answer is no range of numbers.
        """
        # Loaded by the first that asks: most clusters have no Prometheus and need no HTTP client.
        import httpx

        asked = ranges.span(minutes, now)
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                httpx.AsyncClient(
                    transport=self._transport, timeout=TIMEOUT, trust_env=False
                ) as client,
            ):
                answers = [
                    (query, ranges.read(await _ask(client, url, query, asked), asked))
                    for query in ranges.queries(node, names)
                ]
        except (TimeoutError, httpx.TimeoutException) as error:
            raise TimedOut(f"Prometheus did not answer within {TIMEOUT:g} s") from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unreadable("prometheus.url is no http(s) address") from error
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            raise Unreachable(f"Prometheus can't be reached: {words}") from error
        return NodeHistory(
            step=asked.step,
            until=asked.end,
            series=ranges.series(answers, asked),
            source=PROMETHEUS,
        )


async def _ask(
    client: "httpx.AsyncClient", url: str, query: ranges.Query, asked: ranges.Span
) -> bytes:
    """Return one answer's body, whatever its status: an error says in it why."""
    form = {
        "query": query.expression,
        "start": f"{asked.start:.3f}",
        "end": f"{asked.end:.3f}",
        "step": f"{asked.step:.3f}",
    }
    body = bytearray()
    where = f"{url.rstrip('/')}/api/v1/query_range"
    async with client.stream("POST", where, data=form) as answer:
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MOST_BYTES:
                raise Unreadable(f"Prometheus answered more than {MOST_BYTES >> 20} MiB")
    return bytes(body)
