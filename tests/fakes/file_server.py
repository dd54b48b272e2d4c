"""A web server on loopback: a package index, and files that break off as a test says."""

import base64
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from llmgw.model.catalog import PackageRef


@dataclass
class Served:
    """What one path answers."""

    body: bytes
    cut_after: list[int] = field(default_factory=list)
    """For each coming request: bytes after which the connection is cut; then none is."""
    ranges: bool = True
    etag: str | None = '"v1"'
    says_length: bool = True
    status: int = 200
    location: str | None = None
    becomes: "Served | None" = None
    """What answers the next request instead."""
    asked: list[dict[str, str]] = field(default_factory=list)


class FileServer:
    """Serves what is put into `paths`, by path."""

    def __init__(self) -> None:
        self.paths: dict[str, Served] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.paths = self.paths  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add_wheel(
        self,
        name: str,
        files: dict[str, bytes],
        *,
        version: str = "1.0",
        tag: str = "py3-none-any",
        executable: tuple[str, ...] = (),
    ) -> PackageRef:
        """Put a wheel into the index below `/simple/`; return it pinned."""
        data = wheel(name, version, files, executable)
        file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
        self.paths[f"/simple/{name}/"] = Served(f'<a href="{file}">{file}</a>'.encode())
        self.paths[f"/simple/{name}/{file}"] = Served(data)
        return PackageRef(name=name, version=version, sha256=hashlib.sha256(data).hexdigest())

    def environ(self) -> dict[str, str]:
        """Return what makes pip and uv use this index and nothing else of this machine."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"{self.url}/simple/",
            "UV_NO_CONFIG": "1",
            "UV_INDEX_URL": f"{self.url}/simple/",
        }


@contextmanager
def serving() -> Iterator[FileServer]:
    server = FileServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def wheel(name: str, version: str, files: dict[str, bytes], executable: tuple[str, ...]) -> bytes:
    """Return a wheel of those files."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    record: list[str] = []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**files, **metadata}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if path in executable else 0o100644) << 16
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
        archive.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return out.getvalue()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        paths = cast("dict[str, Served]", self.server.paths)  # type: ignore[attr-defined]
        served = paths.get(self.path.partition("?")[0])
        if served is None:
            self.send_error(404)
            return
        served.asked.append({name.lower(): value for name, value in self.headers.items()})
        if served.becomes is not None:
            paths[self.path.partition("?")[0]] = served.becomes
        if served.location is not None:
            self._head(302, {"location": served.location, "content-length": "0"})
            return
        start = self._start(served)
        if start is not None and start >= len(served.body):
            size = f"bytes */{len(served.body)}"
            self._head(416, {"content-range": size, "content-length": "0"})
            return
        self._send(served, start)

    def _start(self, served: Served) -> int | None:
        asked = self.headers.get("range", "")
        same = self.headers.get("if-range") in (None, served.etag)
        if not (served.ranges and same and asked.startswith("bytes=")):
            return None
        return int(asked.removeprefix("bytes=").partition("-")[0])

    def _send(self, served: Served, start: int | None) -> None:
        body = served.body[start or 0 :]
        headers = {"content-type": "text/html" if self.path.endswith("/") else "application/x"}
        if served.says_length:
            headers["content-length"] = str(len(body))
        if served.etag is not None:
            headers["etag"] = served.etag
        if start is not None:
            headers["content-range"] = f"bytes {start}-{len(served.body) - 1}/{len(served.body)}"
        self._head(served.status if start is None else 206, headers)
        if served.cut_after:
            body = body[: served.cut_after.pop(0)]
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
