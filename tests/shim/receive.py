"""Ordinary receiving applications for receiving.py: `receive.py ROLE JSON`. They know nothing of qclimb."""

import asyncio
import ctypes
import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time
from itertools import count
from pathlib import Path

TCP_INFO_WSCALE = 6
SOL_SOCKET, SO_RCVBUF, SO_BUF_LOCK = 1, 8, 72
IPPROTO_TCP, TCP_WINDOW_CLAMP = 6, 10
SYS_GETSOCKOPT = 55  # x86-64
PATTERN = bytes(range(251)) * 4000


def body(size, at=0):
    """Bytes [at, at + size) of what every answer consists of."""
    start = at % 251
    return PATTERN[start : start + size]


def serve(port):
    """Answers each request, a length of 8 bytes, by as many bytes."""
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    print("ready", flush=True)

    def answer(sock):
        with sock:
            while len(asked := sock.recv(8, socket.MSG_WAITALL)) == 8:
                (size,) = struct.unpack("<Q", asked)
                for at in range(0, size, 65536):
                    try:
                        sock.sendall(body(min(65536, size - at), at))
                    except OSError:
                        return

    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def ask(port, size):
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(struct.pack("<Q", size))
    return sock


def head(port):
    """A task that receives small flows without an end: four connections, so that one always has a flow under way."""

    def loop():
        sock = socket.create_connection(("127.0.0.1", port))
        while True:
            sock.sendall(struct.pack("<Q", 500_000))
            left = 500_000
            while left:
                left -= len(sock.recv(min(left, 20_000)))
                time.sleep(0.0005)

    for _ in range(4):
        threading.Thread(target=loop, daemon=True).start()
    time.sleep(0.1)
    print("ready", flush=True)
    signal.pause()


def trickle(port, flows=2):
    """A task that is never quiet and takes 50 KB/s by each of its flows."""
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(flows)]
    for sock in socks:
        sock.sendall(struct.pack("<Q", 1_000_000))
    next_s, told = time.monotonic(), False
    for tick in count():
        for sock in socks:
            sock.recv(200)
        if tick == 25 and not told:  # all of its flows stand in line
            told = print("ready", flush=True) is None
        next_s = max(next_s + 0.004, time.monotonic() - 0.02)
        time.sleep(max(0, next_s - time.monotonic()))


def really(sock, option, level=SOL_SOCKET):
    """A socket option as the kernel has it, past the library."""
    value, size = ctypes.c_int(), ctypes.c_uint(4)
    call = (SYS_GETSOCKOPT, sock.fileno(), level, option, ctypes.byref(value), ctypes.byref(size))
    assert ctypes.CDLL(None).syscall(*call) == 0
    return value.value


def wait_poll(socks, edge):
    poller = select.poll()
    for sock in socks:
        poller.register(sock, select.POLLIN)
    while socks:
        events = poller.poll(60_000)
        assert events, "no event within 60 s"
        for fd, _ in events:
            yield next(sock for sock in socks if sock.fileno() == fd), poller.unregister


def wait_select(socks, edge):
    while socks:
        found, _, _ = select.select(socks, [], [], 60)
        assert found, "no event within 60 s"
        for sock in found:
            yield sock, lambda fd: None


def wait_epoll(socks, edge):
    with select.epoll() as loop:
        for sock in socks:
            loop.register(sock, select.EPOLLIN | (select.EPOLLET if edge else 0))
        while socks:
            events = loop.poll(60)
            assert events, "no event within 60 s"
            for fd, _ in events:
                yield next(sock for sock in socks if sock.fileno() == fd), lambda fd: None


WAITS = {"poll": wait_poll, "select": wait_select, "epoll": wait_epoll, "epoll-et": wait_epoll}


def by_events(mode, socks, size):
    """Believes nothing but events; reads until EAGAIN where they are edges."""
    edge = mode == "epoll-et"
    got = {sock: bytearray() for sock in socks}
    left = list(socks)
    for sock in left:
        sock.setblocking(False)
    for sock, forget in WAITS[mode](left, edge):
        while len(got[sock]) < size:
            try:
                part = sock.recv(min(65536, size - len(got[sock])))
            except BlockingIOError:
                break
            assert part
            got[sock] += part
            if not edge:
                break
        if len(got[sock]) == size and sock in left:
            forget(sock.fileno())
            left.remove(sock)
    return list(got.values())


def by_threads(socks, size):
    got = [bytearray() for _ in socks]

    def take(sock, into):
        while len(into) < size:
            into += sock.recv(min(65536, size - len(into)))

    threads = [threading.Thread(target=take, args=pair) for pair in zip(socks, got, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def by_asyncio(port, flows, size):
    async def take():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack("<Q", size))
        found = await reader.readexactly(size)
        writer.close()
        return found

    async def take_all():
        return await asyncio.gather(*(take() for _ in range(flows)))

    return asyncio.run(take_all())


def kept(port, size, times):
    """The receive buffers that the kernel has early in each of several answers on one connection."""
    sock, early = socket.create_connection(("127.0.0.1", port)), []
    for _ in range(times):
        sock.sendall(struct.pack("<Q", size))
        left = size
        for at in range(size):
            if not left:
                break
            left -= len(sock.recv(min(left, 2000 if at < 3 else 65536)))
            if at == 0:
                early.append(really(sock, SO_RCVBUF))
        time.sleep(0.01)
    print(json.dumps({"early": early}))


def window(port, size):
    """The largest receive buffer that the kernel had while `size` bytes came."""
    sock = ask(port, size)
    left, most = size, 0
    while left:
        left -= len(sock.recv(min(left, 65536)))
        most = max(most, really(sock, SO_RCVBUF))
    print(json.dumps({"most": most}))


def beside(port, go, pause):
    """The least bound of a large flow's window in the second after the file `go` came, the last one when it went."""
    sock, clamps = ask(port, 1 << 40), []

    def take(size, pause, until):
        while not until():
            assert sock.recv(size)
            clamps.append(really(sock, TCP_WINDOW_CLAMP, IPPROTO_TCP))
            time.sleep(pause)

    took = count()
    take(20_000, 0, lambda: next(took) == 300)
    took = count()
    take(1000, 0.01, lambda: next(took) == 100)  # its rate of before is forgotten
    print("ready", flush=True)
    take(1000, 0.01, Path(go).exists)
    clamps.clear()
    end = time.monotonic() + 1
    take(20_000 if not pause else 1000, pause, lambda: time.monotonic() > end)
    least = min(clamps)
    print("seen", flush=True)
    take(1000, 0.01, lambda: not Path(go).exists())
    end = time.monotonic() + 0.5
    take(20_000, 0, lambda: time.monotonic() > end)
    print(json.dumps({"least": least, "after": clamps[-1]}))


def fetch(port, mode, flows, size, after=None):
    """A task of `flows` flows, once the file `after` is there; every byte is compared."""
    while after and not Path(after).exists():
        time.sleep(0.001)
    if mode == "asyncio":
        got = by_asyncio(port, flows, size)
    else:
        socks = [ask(port, size) for _ in range(flows)]
        got = by_threads(socks, size) if mode == "threads" else by_events(mode, socks, size)
    want = hashlib.sha256(b"".join(body(min(65536, size - at), at) for at in range(0, size, 65536))).digest()
    print(json.dumps({"whole": [hashlib.sha256(part).digest() == want for part in got]}))


def lazy(port, go, size):
    """Reads a little, waits for the file `go`, then reads all the rest, a little at first."""
    sock = ask(port, size)
    got = len(sock.recv(1000)) + len(sock.recv(1500)) + len(sock.recv(500))
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.001)
    while got < size:
        got += len(sock.recv(1000 if got < 50_000 else 65536))
    print(json.dumps({"got": got}))


def buffers(port, size):
    """What an application and the kernel see of the receive buffer, before and after `size` bytes."""
    sock = ask(port, size)
    said = {"wscale": sock.getsockopt(6, 11, 104)[TCP_INFO_WSCALE] >> 4, "first": really(sock, SO_RCVBUF)}
    said["shown"] = sock.getsockopt(SOL_SOCKET, SO_RCVBUF)
    left = size
    while left:
        left -= len(sock.recv(min(left, 65536)))
    said |= {"last": really(sock, SO_RCVBUF), "lock": really(sock, SO_BUF_LOCK)}
    print(json.dumps(said))


def unread(port, size, first):
    """Reads `first` bytes, and then nothing before the rest is there as a whole."""
    sock = ask(port, size)
    rest = size - len(sock.recv(first, socket.MSG_WAITALL))
    end = time.monotonic() + 60
    while (found := struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]) < rest:
        assert time.monotonic() < end, f"{found} of {rest} bytes after 60 s"
        time.sleep(0.01)
    print(json.dumps({"whole": sock.recv(rest) == body(rest, first)}))


def timeouts(port):
    """A withheld socket: time-outs of poll, and a poll without one that must end."""
    sock = ask(port, 100_000)
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    got = len(sock.recv(65536)) + len(sock.recv(65536))
    early = empty = 0
    for _ in range(20):
        if got == 100_000:
            break
        start = time.monotonic()
        if not poller.poll(30):
            empty += 1
            early += time.monotonic() - start < 0.03
        else:
            got += len(sock.recv(65536))
    assert got == 100_000 or poller.poll(60_000)
    print(json.dumps({"empty": empty, "early": early}))


def forked(port):
    """A flow that a child goes on reading."""
    sock = ask(port, 200_000)
    got = len(sock.recv(5000)) + len(sock.recv(5000))
    if os.fork() == 0:
        while got < 200_000:
            got += len(sock.recv(65536))
        print(json.dumps({"got": got}), flush=True)
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
