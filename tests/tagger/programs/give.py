"""give ADDRESS PORT: sends to whoever connects until that one says enough, by a byte; tells how many bytes each got."""

import socket
import socketserver
import sys

PIECE = bytes(1 << 16)


class Giver(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")  # fills a queue
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(PIECE))  # what still comes after enough
        given = 0
        while not self.has_enough():
            self.request.sendall(PIECE)
            given += len(PIECE)
        sys.stdout.write(f"{given}\n")  # in one piece, for threads
        sys.stdout.flush()

    def has_enough(self) -> bool:
        try:
            return bool(self.request.recv(1, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


with Server((sys.argv[1], int(sys.argv[2])), Giver) as server:
    print("ready", flush=True)
    server.serve_forever()
