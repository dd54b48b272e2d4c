"""Longer histories, from the Prometheus that scrapes this cluster's `/metrics`."""

import asyncio
import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from llmgw.base.errors import TimedOut, Unreachable, Unreadable
from llmgw.control import ranges
from llmgw.model.history import PROMETHEUS, NodeHistory

if TYPE_CHECKING:
    import httpx

TIMEOUT = 10.0
"""Seconds for all that one history needs: nine questions at the most."""
MOST_BYTES = 8 << 20
"""Of one answer, unpacked: 128 devices at 360 points are about one megabyte."""

_GZIP = 16 + zlib.MAX_WBITS


class Prometheus:
    """Asks for ranges of time. Proxy variables are not read and redirects are not followed.

    Args:
        transport: replaces the network in tests and in a simulator.
    """

    def __init__(self, transport: "httpx.AsyncBaseTransport | None" = None) -> None:
        self._transport = transport

    async def history(
        self,
        url: str,
        node: str,
        names: Collection[str],
        *,
        cluster: str,
        minutes: int,
        now: float,
    ) -> NodeHistory:
        """Return how a node was in the last minutes.

        Args:
            url: the setting `prometheus.url`.
            node: its id.
            names: which measures; empty: all.
            cluster: the node's, as `llmgw_build_info` names it.
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
                    (query, await _ask(client, url, query, asked))
                    for query in ranges.queries(cluster, node, names)
                ]
                series = await asyncio.to_thread(ranges.series, answers, asked)
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
            series=series,
            source=PROMETHEUS,
        )


async def _ask(
    client: "httpx.AsyncClient", url: str, query: ranges.Query, asked: ranges.Span
) -> ranges.Found:
    """Return what one question found. What an answer says is read whatever its status is."""
    form = {
        "query": query.expression,
        "start": f"{asked.start:.3f}",
        "end": f"{asked.end:.3f}",
        "step": f"{asked.step:.3f}",
    }
    body = bytearray()
    where = f"{url.rstrip('/')}/api/v1/query_range"
    # An unpacked piece has no bound, so httpx unpacks nothing.
    plain = {"Accept-Encoding": "identity"}
    async with client.stream("POST", where, data=form, headers=plain) as answer:
        packed = answer.headers.get("Content-Encoding", "identity").lower()
        pieces = answer.aiter_bytes() if packed == "identity" else answer.aiter_raw()
        async for piece in pieces:
            body += piece
            if len(body) > MOST_BYTES:
                raise _too_much()
    return await asyncio.to_thread(_read, bytes(body), packed, asked)


def _read(body: bytes, packed: str, asked: ranges.Span) -> ranges.Found:
    """Read an answer, in a thread: it may have megabytes. Some proxies pack what nobody asked."""
    if packed == "gzip":
        try:
            unpacked = zlib.decompressobj(_GZIP).decompress(body, MOST_BYTES + 1)
        except zlib.error as error:
            raise Unreadable(f"Prometheus answered what is no gzip: {error}") from error
        if len(unpacked) > MOST_BYTES:
            raise _too_much()
        body = unpacked
    elif packed != "identity":
        raise Unreadable(f"Prometheus answered packed as {packed[:40]!r}, which nobody asked for")
    return ranges.read(body, asked)


def _too_much() -> Unreadable:
    return Unreadable(f"Prometheus answered more than {MOST_BYTES >> 20} MiB")
