"""take ADDRESS PORT FLOWS: reads so many connections to their ends; says when they begin, and how many bytes
they were together."""

import selectors
import socket
import sys

address, port, flows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
waiting = selectors.DefaultSelector()
for _ in range(flows):
    waiting.register(socket.create_connection((address, port)), selectors.EVENT_READ)
total = 0
while waiting.get_map():
    for key, _ in waiting.select():
        got = key.fileobj.recv(65536)
        if not total:
            print("begun", flush=True)
        total += len(got)
        if not got:
            waiting.unregister(key.fileobj)
print(total)
