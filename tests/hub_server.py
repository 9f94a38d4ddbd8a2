"""A hub of our own: the Hub's endpoints on loopback, well-behaved until told otherwise."""

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" * 6 + "c0ff"
_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)")


@dataclass
class Hub:
    """What the server has, how it behaves, and what was asked of it.

    Attributes:
        files: Paths of files by USER/REPOSITORY/NAME.
        refuses: By repository, the status every request for it gets.
        fails_first: By name, how many requests for the file get which status, with Retry-After: 0.
        cuts_after: By name, after how many bytes of an answer the connection is cut, once for each number.
        garbles: Names of files that arrive with other bytes.
        piece: Bytes written at a time.
        pause: Seconds between pieces.
        sent: Bytes of content sent, by name.
        requests: Requests seen: method and path.
        tokens: Authorization headers seen.
    """

    files: dict[str, Path]
    refuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    fails_first: dict[str, tuple[int, int]] = field(default_factory=dict)
    cuts_after: dict[str, list[int]] = field(default_factory=dict)
    garbles: set[str] = field(default_factory=set)
    piece: int = 1 << 20
    pause: float = 0.0
    sent: Counter[str] = field(default_factory=Counter)
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    endpoint: str = ""
    digests: dict[Path, str] = field(default_factory=dict)

    def sha256(self, path: Path) -> str:
        """Of a file, worked out once."""
        if path not in self.digests:
            self.digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.digests[path]


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Run the server; its address is ``hub.endpoint``."""

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        if token := self.headers.get("Authorization"):
            self.hub.tokens.append(token)
        if match := _API.fullmatch(path):
            self._repository(match[1])
        elif match := _FILE.fullmatch(path):
            self._file(match[1], match[2], with_body=with_body)
        else:
            self._error(404, "RepoNotFound")

    def _error(self, status: int, code: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _repository(self, repository: str) -> None:
        if repository in self.hub.refuses:
            self._error(*self.hub.refuses[repository])
            return
        names = [name for name in self.hub.files if name.startswith(f"{repository}/")]
        if not names:
            self._error(401, "RepoNotFound")
            return
        siblings = []
        for name in names:
            path = self.hub.files[name]
            size = path.stat().st_size
            lfs = {"sha256": self.hub.sha256(path), "size": size, "pointerSize": 134}
            siblings.append({"rfilename": name.removeprefix(f"{repository}/"), "size": size, "lfs": lfs})
        body = json.dumps({"id": repository, "modelId": repository, "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, repository: str, name: str, *, with_body: bool) -> None:
        hub, full = self.hub, f"{repository}/{name}"
        if repository in hub.refuses:
            self._error(*hub.refuses[repository])
            return
        if full not in hub.files:
            self._error(404, "EntryNotFound")
            return
        n_failures, status = hub.fails_first.get(full, (0, 0))
        if with_body and n_failures:
            hub.fails_first[full] = (n_failures - 1, status)
            self._error(status, "Busy", Retry_After="0")
            return
        path = hub.files[full]
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        digest = hub.sha256(path)
        for header, value in {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{digest}"',
            "X-Linked-Etag": f'"{digest}"',
            "X-Linked-Size": str(size),
            "Accept-Ranges": "bytes",
            "Content-Length": str(size - start),
            **({"Content-Range": f"bytes {start}-{size - 1}/{size}"} if asked else {}),
        }.items():
            self.send_header(header, value)
        self.end_headers()
        if with_body:
            self._send(full, path, start)

    def _send(self, name: str, path: Path, start: int) -> None:
        cuts = self.hub.cuts_after.get(name, [])
        left = cuts.pop(0) if cuts else None
        with path.open("rb") as data:
            data.seek(start)
            while piece := data.read(self.hub.piece if left is None else min(self.hub.piece, left)):
                if name in self.hub.garbles:
                    piece = bytes([piece[0] ^ 1]) + piece[1:]
                try:
                    self.wfile.write(piece)
                except OSError:
                    return
                self.hub.sent[name] += len(piece)
                if left is not None:
                    left -= len(piece)
                if self.hub.pause:
                    threading.Event().wait(self.hub.pause)
        if left == 0 and path.stat().st_size > start:
            self.close_connection = True
            self.connection.shutdown(2)
