"""told ADDRESS PORT ACTION...: a connection whose messages tell their length by their first four bytes, which do not
count themselves. SIZE: a message, in writes of 10,000 bytes; SIZE/SENT: only so many bytes of it; +BYTES: more; r:
reads a byte; p: a pause."""

import socket
import sys
import time

address, port, *actions = sys.argv[1:]
with socket.create_connection((address, int(port))) as connection:
    for action in actions:
        if action == "r":
            assert connection.recv(1)
        elif action == "p":
            time.sleep(0.5)
        else:
            size, _, sent = action.partition("/")
            message = bytes(int(size)) if size[0] == "+" else (int(size) - 4).to_bytes(4, "big") + bytes(int(size) - 4)
            message = message[: int(sent or size)]
            for at in range(0, len(message), 10_000):
                connection.sendall(message[at : at + 10_000])
