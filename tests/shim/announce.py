"""A client and a server on loopback for test_announced.py: messages in given writes, answered by a byte each.

python announce.py JSON: {"port": 0, "messages": [[WRITE, ...], ...], "pause_s": 0.0}; a WRITE is hexadecimal, or a
number of bytes that say nothing, or both, joined by a plus. The client sends each message, with a pause between its
writes, and reads an answer.
"""

import json
import socket
import sys
import threading
import time


def serve(listener: socket.socket, sizes: list[int]) -> None:
    connection, _ = listener.accept()
    with connection:
        for size in sizes:
            while size:
                size -= len(connection.recv(min(size, 1 << 20)))
            connection.sendall(b".")


def whole(write: str | int) -> bytes:
    told, _, rest = str(write).partition("+") if isinstance(write, str) else ("", "", write)
    return bytes.fromhex(told) + b"\xa5" * int(rest or 0)


def main(told: dict) -> None:
    messages = [[whole(write) for write in message] for message in told["messages"]]
    with socket.create_server(("127.0.0.1", told.get("port", 0))) as listener:
        sizes = [sum(map(len, message)) for message in messages]
        thread = threading.Thread(target=serve, args=(listener, sizes))
        thread.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for message in messages:
                for number, write in enumerate(message):
                    if number:
                        time.sleep(told.get("pause_s", 0.0))
                    client.sendall(write)
                assert client.recv(1) == b"."
        thread.join()


main(json.loads(sys.argv[1]))
