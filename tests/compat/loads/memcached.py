"""A load on memcached that knows what each answer must be: `memcached.py PORT THREADS OPERATIONS`; prints JSON.

Each thread owns its keys, so that every answer is known: sets and gets of 1 byte to 400 KB, gets of
20 keys at once.
"""

import json
import random
import socket
import sys
import threading
import time
from io import BufferedRWPair
from typing import Any

SIZES = (1, 100, 999, 1_000, 1_001, 4_000, 30_000, 400_000)
LOCK = threading.Lock()
total = {"operations": 0, "wrong": 0, "missing": 0, "errors": 0}


def load(port: int, number: int, operations: int) -> None:
    """One thread, one connection."""
    dice = random.Random(number)
    kept: dict[bytes, bytes] = {}
    seen = dict.fromkeys(total, 0)
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as stream:
        for _ in range(operations):
            seen["operations"] += 1
            key = b"%d-%d" % (number, dice.randrange(40))
            if dice.random() < 0.4 or not kept:
                value = dice.randbytes(dice.choice(SIZES))
                stream.write(b"set %s 0 0 %d\r\n" % (key, len(value)))
                stream.write(value + b"\r\n")
                stream.flush()
                seen["errors"] += stream.readline() != b"STORED\r\n"
                kept[key] = value
                continue
            keys = [key] if dice.random() < 0.8 else list(kept)[:20]
            stream.write(b"get %s\r\n" % b" ".join(keys))
            stream.flush()
            answer = got(stream)
            seen["wrong"] += sum(value != kept.get(name) for name, value in answer.items())
            seen["missing"] += sum(name in kept and name not in answer for name in keys)
    with LOCK:
        for name, count in seen.items():
            total[name] += count


def got(stream: "BufferedRWPair[Any, Any]") -> dict[bytes, bytes]:
    """The values of one answer."""
    found = {}
    while (line := stream.readline()) != b"END\r\n":
        word, name, _, size = line.split()
        if word != b"VALUE":
            raise ValueError(f"memcached said {line!r}, expected VALUE or END")
        found[name] = stream.read(int(size))
        stream.readline()
    return found


if __name__ == "__main__":
    words = ["none"]
    threading.excepthook = lambda told: words.append(f"{told.exc_type.__name__}: {told.exc_value}")
    port, threads, operations = map(int, sys.argv[1:])
    began = time.monotonic()
    all_threads = [threading.Thread(target=load, args=(port, number, operations)) for number in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    results = {name: str(count) for name, count in total.items()} | {"the load's last words": words[-1]}
    print(json.dumps({"results": results, "rate": total["operations"] / (time.monotonic() - began)}))
