"""take ADDRESS PORT FLOWS: reads so many connections until a line comes in, then to their ends; says when they begin,
and how many bytes they were together."""

import selectors
import socket
import sys

address, port, flows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
waiting = selectors.DefaultSelector()
connections = [socket.create_connection((address, port)) for _ in range(flows)]
for connection in connections:
    waiting.register(connection, selectors.EVENT_READ)
waiting.register(sys.stdin, selectors.EVENT_READ)
total = 0
while waiting.get_map():
    for key, _ in waiting.select():
        if key.fileobj is sys.stdin:
            waiting.unregister(sys.stdin)
            for connection in connections:
                connection.send(b"!")
            continue
        got = key.fileobj.recv(65536)
        if not total:
            print("begun", flush=True)
        total += len(got)
        if not got:
            waiting.unregister(key.fileobj)
print(total)
