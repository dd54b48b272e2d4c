"""HTTP by httpx, behind the interface that the rest knows."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import httpx

from llmgw.base.errors import TimedOut, Unreachable, Unreadable
from llmgw.base.world import ANSWER_MOST, HttpAnswer
from llmgw_agent.host.unpacking import Unpacking


class HttpxStream:
    """An answer whose body is read in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """Return the status code."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, names in lower case."""
        return _lower(self._response.headers)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives, just as it was sent: not decompressed."""
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx.TimeoutException as error:
            raise TimedOut(f"{_where(self._response.url)}: no byte for too long") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"{_where(self._response.url)}: {_words(error)}") from error


class HttpxHttp:
    """An HTTP client of this process; redirects are not followed.

    Args:
        proxies: use the proxies that the environment names. Off for engines, which are reached
            directly whatever the machine's way to the outside is.
    """

    def __init__(self, *, proxies: bool) -> None:
        self._proxies = proxies
        self._plain: httpx.AsyncClient | None = None
        self._any: httpx.AsyncClient | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float,
        most: int = ANSWER_MOST,
    ) -> HttpAnswer:
        """Send a request and return the whole answer, whatever its status."""
        asked = {"accept-encoding": "identity", **(headers or {})}
        with _translated(url):
            # httpx's own timeout holds for each wait; here it is the whole answer's.
            async with (
                asyncio.timeout(timeout),
                self._client(url).stream(
                    method, url, headers=asked, content=body, timeout=timeout
                ) as answer,
            ):
                whole = await _body(answer, most)
        return HttpAnswer(status=answer.status_code, body=whole, headers=_lower(answer.headers))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> AsyncIterator[HttpxStream]:
        """Open a request whose body is read in pieces."""
        with _translated(url):
            client = self._client(url)
            request = client.build_request(method, url, headers=headers, timeout=timeout)
            response = await client.send(request, stream=True)
        try:
            yield HttpxStream(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close every connection that is kept."""
        for client in (self._plain, self._any):
            if client is not None:
                await client.aclose()

    def _client(self, url: str) -> httpx.AsyncClient:
        """Return the client for an address; those of plain HTTP know no authorities at all.

        Reading the authorities costs 4 MB and 50 ms, and an agent talks to its engines in plain
        HTTP, directly: what goes through a proxy may need them.
        """
        if self._proxies or not url.lower().startswith("http://"):
            if self._any is None:
                self._any = httpx.AsyncClient(trust_env=self._proxies, follow_redirects=False)
            return self._any
        if self._plain is None:
            self._plain = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                verify=False,  # noqa: S501 (it is asked for http:// alone)
            )
        return self._plain


async def _body(answer: httpx.Response, most: int) -> bytes:
    """Return a whole body; not one byte more than `most` is decompressed or kept.

    httpx's own decompressing makes a thousand bytes of one before anybody can count them.

    Raises:
        Unreadable: there are more, or it is compressed in a way that was not asked for.
    """
    where, how = _where(answer.url), answer.headers.get("content-encoding", "identity")
    unpacked = Unpacking(how, most)
    try:
        async for piece in answer.aiter_raw():
            unpacked.take(piece)
        return unpacked.whole()
    except Unreadable as error:
        raise Unreadable(f"{where}: {error.message}") from error


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Raise our errors for httpx's."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise TimedOut(f"{_where(url)}: no answer in time") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Unreadable(f"{_where(url)!r} is no http(s) address") from error
    except httpx.HTTPError as error:
        raise Unreachable(f"{_where(url)}: {_words(error)}") from error


def _where(url: httpx.URL | str) -> str:
    """Return an address without what may be secret in it: user, password, query."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return str(url)[:200]
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _lower(headers: httpx.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
