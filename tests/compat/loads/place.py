"""A small HTTP/1.1 server that keeps what is PUT, in one piece or in chunks, and gives it back: `place.py PORT`."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kept: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    """One connection, one thread."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Keeps the body under the path."""
        kept[self.path] = self._chunks() if "Transfer-Encoding" in self.headers else self._whole()
        self._answer(201, b"")

    def do_GET(self) -> None:
        """The body under the path."""
        body = kept.get(self.path)
        self._answer(404 if body is None else 200, body or b"")

    def _whole(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
