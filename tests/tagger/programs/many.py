"""Opens so many connections over the loopback, keeps all of them, and sends a little on each; says so, and waits."""

import resource
import select
import socket
import sys

count = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 64, 2 * count + 64))
server = socket.create_server(("127.0.0.1", 0), backlog=128)
kept = []
for _ in range(count):
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    client.sendall(b"x" * 100)
    assert accepted.recv(100)
    kept += [client, accepted]
print("open", flush=True)
select.select([sys.stdin], [], [])
