"""Ordinary applications that know nothing of qclimb: `talk.py ROLE JSON`. Each ends by a line of JSON."""

import ctypes
import hashlib
import json
import os
import random
import select
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path


def payload(size, seed=0):
    return random.Random(seed).randbytes(size)


def say(**words):
    print(json.dumps(words), flush=True)


class Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("len", ctypes.c_size_t))


class Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_len", ctypes.c_uint),
        ("iov", ctypes.POINTER(Iovec)),
        ("iov_len", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_len", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class Mmsghdr(ctypes.Structure):
    _fields_ = (("hdr", Msghdr), ("len", ctypes.c_uint))


def sendmmsg(sock, parts):
    """All parts by sendmmsg(2), which Python lacks."""
    libc = ctypes.CDLL(None, use_errno=True)
    while parts:
        messages = (Mmsghdr * len(parts))()
        iovecs = [Iovec(ctypes.cast(ctypes.c_char_p(part), ctypes.c_void_p), len(part)) for part in parts]
        for message, iovec in zip(messages, iovecs, strict=True):
            message.hdr.iov = ctypes.pointer(iovec)
            message.hdr.iov_len = 1
        done = libc.sendmmsg(sock.fileno(), messages, len(parts), 0)
        assert done > 0, os.strerror(ctypes.get_errno())
        short = messages[done - 1].len
        rest = [parts[done - 1][short:]] if short < len(parts[done - 1]) else []
        parts = rest + parts[done:]


def by_parts(call, data):
    """The data as three parts again and again until `call` has taken them all."""
    while data:
        third = len(data) // 3
        done = call([data[:third], data[third : 2 * third], data[2 * third :]])
        data = data[done:]


def by_epoll(sock, data, edge, calls):
    """An event loop that writes until EAGAIN and then believes nothing but events."""
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock, select.EPOLLOUT | (select.EPOLLET if edge else 0))
    while data:
        events = poll.poll(30)
        calls["events"] += 1
        assert events, "no event within 30 s: an EAGAIN that nothing ended"
        while data:
            calls["writes"] += 1
            try:
                done = sock.send(data)
            except BlockingIOError:
                break
            data = data[done:]
            if not edge:
                break
    poll.close()
    sock.setblocking(True)


def by_threads(sock, data, chunk, threads=4):
    """Four threads on one socket; a lock of theirs keeps a chunk whole and the chunks in order."""
    lock, rest = threading.Lock(), [memoryview(data)]

    def run():
        while True:
            with lock:
                part, rest[0] = rest[0][:chunk], rest[0][chunk:]
                if not part:
                    return
                sock.sendall(part)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def write(sock, data, how, chunk):
    """Writes data in application-sized chunks by one kind of call."""
    calls = {"events": 0, "writes": 0}
    if how == "threads":
        by_threads(sock, data, chunk)
        return calls
    if how in ("epoll-lt", "epoll-et"):
        by_epoll(sock, memoryview(data), how == "epoll-et", calls)
        return calls
    if how == "sendfile":
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            offset = 0
            while offset < len(data):
                offset += os.sendfile(sock.fileno(), file.fileno(), offset, min(chunk, len(data) - offset))
        return calls
    for at in range(0, len(data), chunk):
        part = data[at : at + chunk]
        if how == "send":
            sock.sendall(part)
        elif how == "write":
            while part:
                part = part[os.write(sock.fileno(), part) :]
        elif how == "writev":
            by_parts(lambda parts: os.writev(sock.fileno(), parts), part)
        elif how == "sendmsg":
            by_parts(sock.sendmsg, part)
        elif how == "sendmmsg":
            third = -(-len(part) // 3)
            sendmmsg(sock, [part[i : i + third] for i in range(0, len(part), third)])
        else:
            raise ValueError(how)
    return calls


def sink(address, port, flows=1, reply=b"."):
    """Receives `flows` messages, each a length line and as many bytes, on one connection; answers each."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as server:
        say(ready=True)
        connection, _ = server.accept()
        digests = []
        for _ in range(flows):
            line = b""
            while not line.endswith(b"\n"):
                line += connection.recv(1)
            left, digest = int(line), hashlib.sha256()
            while left:
                data = connection.recv(min(left, 1 << 18))
                assert data, f"{left} bytes never came"
                digest.update(data)
                left -= len(data)
            connection.sendall(reply)
            digests.append(digest.hexdigest())
        say(digests=digests)


def source(address, port, size, how="send", chunk=1 << 30, flows=1, tos=None, pause=None):
    """Sends `flows` messages of `size` bytes (the length line included), each after the answer to the one before.

    Between two it makes the file `pause`, and goes on when that is gone.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if tos is not None:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    sock.connect((address, port))
    shown = []
    digests, times = [], []
    for flow in range(flows):
        body = payload(size, flow)
        line = b"%d\n" % (size - len(b"%d\n" % size))
        data = line + body[: size - len(line)]
        started = time.perf_counter()
        calls = write(sock, data, how, chunk)
        shown.append([sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), sock.getsockopt(socket.SOL_SOCKET, 12)])
        assert sock.recv(1) == b"."
        times.append(time.perf_counter() - started)
        digests.append(hashlib.sha256(data[len(line) :]).hexdigest())
        if pause and flow + 1 < flows:
            Path(pause).touch()
            while Path(pause).exists():
                time.sleep(0.01)
    say(digests=digests, calls=calls, shown=shown, times=times)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
