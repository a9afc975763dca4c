"""Training with a parameter server over sockets: a program of our own (numpy); frameworks would be gigabytes.

One server, three workers, two models after each other: a multi-layer perceptron whose gradients are sent in full or
by their largest tenth, and a classifier over an embedding table of which each batch needs other rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lab.record.site import Site

PORT = 7400
SERVER, WORKERS = "h1", ("h2", "h3", "h4")
PROGRAM = Path(__file__).parent / "programs" / "parameter_server.py"
MODELS = ("perceptron", "embedding")
ROUNDS = 4
"""Jobs take turns, each time with other data, so that the end of a recording has both."""


def record(site: Site, seconds: float, seed: int) -> dict[str, Any]:
    """Runs the jobs; returns their settings for the recording's metadata."""
    for n in range(ROUNDS * len(MODELS)):
        model, port = MODELS[n % len(MODELS)], PORT + n % len(MODELS)
        common = ["--model", model, "--address", f"{site.hosts[SERVER]}:{port}", "--seed", str(seed * 100 + n)]
        server = site.start(SERVER, [sys.executable, str(PROGRAM), "serve", *common], f"server-{n}")
        site.await_listening(server, f"server-{n}", SERVER, port)
        site.task(model)
        workers = {}
        for worker, host in enumerate(WORKERS):
            argv = [sys.executable, str(PROGRAM), "work", *common, "--worker", str(worker)]
            name = f"{model}-{n}-{host}"
            workers[name] = site.start(host, [*argv, "--seconds", str(seconds / (ROUNDS * len(MODELS)))], name)
        for name, process in workers.items():
            site.wait(process, name, seconds + 90)
        server.terminate()
        server.wait(10)
    return {
        "models": MODELS,
        "rounds": ROUNDS,
        "workers": len(WORKERS),
        "servers": 1,
        "program": "a parameter server of ours, numpy",
    }
