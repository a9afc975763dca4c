"""give ADDRESS PORT BYTES: sends so many to whoever connects, until it is ended."""

import socket
import socketserver
import sys

size = int(sys.argv[3])


class Giver(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")  # fills a queue
        self.request.sendall(bytes(size))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


with Server((sys.argv[1], int(sys.argv[2])), Giver) as server:
    print("ready", flush=True)
    server.serve_forever()
