"""A parameter server and its workers: asynchronous SGD on generated data, one TCP connection a worker.

A message is a header of 16 bytes (kind, tensor, rows, bytes) and a body, written as two calls: requests and
acknowledgements are the header alone. A worker's step: pull the tensors (or the rows of a table) that it needs,
compute, push gradients, now and then tell the loss; every 50th step the first worker pulls a checkpoint, which the
server streams in 64 KB pieces.
"""

import argparse
import socket
import struct
import threading
import time
from itertools import pairwise

import numpy as np

HEADER = struct.Struct("<IIII")
PULL, PUSH, TELL, CHECKPOINT, TENSOR, DONE = range(6)
LAYERS = (256, 128, 64, 10)
ROWS, WIDTH = 20_000, 16
PIECE = 1 << 16
BATCH = 64


def shapes_of(model: str) -> list[tuple[int, ...]]:
    """The tensors of a model, float32."""
    if model == "perceptron":
        return [shape for a, b in pairwise(LAYERS) for shape in ((a, b), (b,))]
    return [(ROWS, WIDTH), (WIDTH, 2), (2,)]


def receive(connection: socket.socket, count: int) -> bytes:
    """Exactly `count` bytes."""
    found = bytearray()
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def send(connection: socket.socket, kind: int, tensor: int, rows: int, body: bytes = b"") -> None:
    """One message."""
    connection.sendall(HEADER.pack(kind, tensor, rows, len(body)))
    if body:
        connection.sendall(body)


class Server:
    """The tensors, and a thread a worker."""

    def __init__(self, model: str, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.tensors = [(0.1 * random.standard_normal(shape)).astype(np.float32) for shape in shapes_of(model)]

    def serve(self, address: str) -> None:
        """For ever."""
        host, port = address.split(":")
        listener = socket.create_server((host, int(port)))
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            try:
                while True:
                    self._answer(connection, *HEADER.unpack(receive(connection, HEADER.size)))
            except (EOFError, ConnectionError):
                return

    def _answer(self, connection: socket.socket, kind: int, tensor: int, rows: int, length: int) -> None:
        body = receive(connection, length)
        if kind == PULL:
            found = self.tensors[tensor]
            if rows:
                found = found[np.frombuffer(body, np.uint32)]
            send(connection, TENSOR, tensor, rows, found.tobytes())
        elif kind == PUSH:
            mine = self.tensors[tensor]
            if rows:
                at = np.frombuffer(body[: 4 * rows], np.uint32)
                values = np.frombuffer(body[4 * rows :], np.float32)
                flat = mine if values.size > rows else mine.reshape(-1)
                np.subtract.at(flat, at, values.reshape(rows, -1) if values.size > rows else values)
            else:
                mine -= np.frombuffer(body, np.float32).reshape(mine.shape)
            send(connection, DONE, tensor, 0)
        elif kind == TELL:
            send(connection, DONE, tensor, 0)
        else:
            whole = b"".join(each.tobytes() for each in self.tensors)
            connection.sendall(HEADER.pack(TENSOR, 0, 0, len(whole)))
            for begin in range(0, len(whole), PIECE):
                connection.sendall(whole[begin : begin + PIECE])


class Worker:
    """One worker's side of the connection."""

    def __init__(self, options: argparse.Namespace) -> None:
        host, port = options.address.split(":")
        self.connection = socket.create_connection((host, int(port)), timeout=60)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.random = np.random.default_rng([options.seed, options.worker])
        self.shapes = shapes_of(options.model)
        self.first = options.worker == 0

    def ask(self, kind: int, tensor: int, rows: int = 0, body: bytes = b"") -> bytes:
        """One message and its answer's body."""
        send(self.connection, kind, tensor, rows, body)
        return receive(self.connection, HEADER.unpack(receive(self.connection, HEADER.size))[3])

    def pull(self, tensor: int) -> np.ndarray:
        """A whole tensor."""
        return np.frombuffer(self.ask(PULL, tensor), np.float32).reshape(self.shapes[tensor])

    def push(self, tensor: int, gradient: np.ndarray, is_sparse: bool) -> None:
        """A gradient, in full or by its largest tenth."""
        flat = np.ascontiguousarray(gradient, dtype=np.float32).ravel()
        if not is_sparse or flat.size < 1000:
            self.ask(PUSH, tensor, 0, flat.tobytes())
            return
        least = np.quantile(np.abs(flat), 0.9)
        at = np.flatnonzero(np.abs(flat) > least).astype(np.uint32)
        self.ask(PUSH, tensor, len(at), at.tobytes() + flat[at].tobytes())

    def perceptron(self, step: int) -> float:
        """One step of a ReLU network on clusters."""
        label = self.random.integers(0, 10, BATCH)
        x = (self.random.standard_normal((BATCH, LAYERS[0])) + label[:, None] / 5).astype(np.float32)
        layers = [(self.pull(2 * i), self.pull(2 * i + 1)) for i in range(len(LAYERS) - 1)]
        seen = [x]
        for i, (weight, bias) in enumerate(layers):
            x = x @ weight + bias
            x = np.maximum(x, 0) if i < len(layers) - 1 else x
            seen.append(x)
        share = np.exp(x - x.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        loss = float(-np.log(share[np.arange(BATCH), label] + 1e-9).mean())
        share[np.arange(BATCH), label] -= 1
        down = share / BATCH
        is_sparse = step % 200 >= 100
        for i in reversed(range(len(layers))):
            weight, _ = layers[i]
            here = seen[i]
            self.push(2 * i, 0.05 * here.T @ down, is_sparse)
            self.push(2 * i + 1, 0.05 * down.sum(axis=0), False)
            down = (down @ weight.T) * (here > 0)
        return loss

    def embedding(self, step: int) -> float:
        """One step of a logistic classifier over embedded words; their popularity is Zipf's."""
        count = int(self.random.integers(8, BATCH))
        words = np.minimum(self.random.zipf(1.3, (count, 12)), ROWS) - 1
        unique, at = np.unique(words, return_inverse=True)
        rows = unique.astype(np.uint32).tobytes()
        table = np.frombuffer(self.ask(PULL, 0, len(unique), rows), np.float32).reshape(-1, WIDTH)
        weight, bias = self.pull(1), self.pull(2)
        label = (words[:, :3].min(axis=1) > 0).astype(int)  # whether the first ones are all rare
        mean = table[at.reshape(words.shape)].mean(axis=1)
        score = mean @ weight + bias
        share = np.exp(score - score.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        loss = float(-np.log(share[np.arange(count), label] + 1e-9).mean())
        share[np.arange(count), label] -= 1
        gradient = np.zeros_like(table)
        np.add.at(gradient, at.reshape(words.shape), ((share @ weight.T) / 12 / count)[:, None, :])
        self.ask(PUSH, 0, len(unique), rows + (0.1 * gradient).astype(np.float32).tobytes())
        self.push(1, 0.1 * mean.T @ share / count, False)
        self.push(2, 0.1 * share.mean(axis=0), False)
        return loss

    def work(self, model: str, seconds: float) -> None:
        """Steps until the time is over."""
        until = time.monotonic() + seconds
        step = 0
        while time.monotonic() < until:
            loss = self.perceptron(step) if model == "perceptron" else self.embedding(step)
            if step % 10 == 0:
                self.ask(TELL, step, 0, f"step {step} loss {loss:.4f}".encode())
            if self.first and step % 50 == 49:
                self.ask(CHECKPOINT, 0)
            time.sleep(float(self.random.exponential(0.02)))
            step += 1


def main() -> None:
    """Serves or works."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("what", choices=["serve", "work"])
    parse.add_argument("--model", choices=["perceptron", "embedding"], required=True)
    parse.add_argument("--address", required=True)
    parse.add_argument("--seed", type=int, required=True)
    parse.add_argument("--worker", type=int, default=0)
    parse.add_argument("--seconds", type=float, default=10)
    options = parse.parse_args()
    if options.what == "serve":
        Server(options.model, options.seed).serve(options.address)
    else:
        Worker(options).work(options.model, options.seconds)


if __name__ == "__main__":
    main()
