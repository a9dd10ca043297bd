"""A store whose lists lag: a proxy before S3 that leaves out of a list what was written a moment ago.

S3 itself has consistent lists. Other stores with its protocol, and caches before them, may not.
"""

from __future__ import annotations

import http.client
import re
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

ENTRY = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
MODIFIED = re.compile(rb"<LastModified>(.*?)</LastModified>")
OF_A_CONNECTION = ("connection", "transfer-encoding", "content-length", "keep-alive")


class LaggingLists:
    """`lag_s`: how old a file is before a list has it. `left_out`: how many entries were not in a list."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.lag_s = 0.0
        self.left_out = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port = self.server.server_port
        self.server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    def listed(self, body: bytes) -> bytes:
        """The list without what is too new for it."""
        newest = datetime.now(UTC) - timedelta(seconds=self.lag_s)

        def kept(entry: re.Match[bytes]) -> bytes:
            modified = MODIFIED.search(entry[0])
            assert modified is not None
            if datetime.fromisoformat(modified[1].decode()) <= newest:
                return entry[0]
            self.left_out += 1
            return b""

        return ENTRY.sub(kept, body)


def _handler(lists: LaggingLists) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            store = http.client.HTTPConnection("127.0.0.1", lists.target)
            try:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                store.request(self.command, self.path, body, dict(self.headers.items()))
                answer = store.getresponse()
                content = answer.read()
            finally:
                store.close()
            if self.command == "GET" and "list-type=2" in self.path and lists.lag_s:
                content = lists.listed(content)
            self._answer(answer, content)

        def _answer(self, answer: http.client.HTTPResponse, content: bytes) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OF_A_CONNECTION:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        def log_message(self, format: str, *args: object) -> None:
            """Moto's server has a log."""

    return Handler
