"""Spark: a standalone cluster with workers in three hosts; K-Means, PageRank and SGD on generated data.

PySpark comes from PyPI (the extra `spark`, 456 MB) with the machine's Java; the driver is in the master's host.
Every JVM and every Python worker runs under the library. Spark's flows are messages on kept connections.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.record.site import Site
from lab.workload.programs import WorkloadError

MASTER, WORKERS = "h1", ("h2", "h3", "h4")
PORT = 7077
PROGRAM = Path(__file__).parent / "programs" / "spark_jobs.py"
JOBS = ("kmeans", "pagerank", "sgd")
JOB_DEADLINE_S = 240


def spark_home(python: str) -> Path:
    """Where the PySpark of a Python lies. Raises WorkloadError: it has none."""
    ask = [python, "-c", "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)"]
    found = subprocess.run(ask, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    if found.returncode:
        raise WorkloadError(
            f"{python} has no pyspark: `pip install 'qclimb[spark]'`, or name another Python (--python)"
        )
    return Path(found.stdout.strip())


def record(site: Site, seconds: float, seed: int, python: str = sys.executable, scale: float = 1.0) -> dict[str, Any]:
    """Runs rounds of the jobs, each with another seed, until the time is over; returns their settings."""
    if shutil.which("java") is None:
        raise WorkloadError("java is missing: `apt-get install default-jre-headless`")
    home = spark_home(python)
    common = {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": "",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOG_DIR": str(site.folder),
        "OPENBLAS_NUM_THREADS": "1",
    }
    url = f"spark://{site.hosts[MASTER]}:{PORT}"

    def daemon(host: str, name: str, *words: str) -> subprocess.Popen[Any]:
        extra = {**common, "SPARK_LOCAL_IP": site.hosts[host], "SPARK_LOCAL_DIRS": str(site.folder / f"local-{host}")}
        argv = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", "--host", site.hosts[host]]
        return site.start(host, [*argv, *words[1:]], name, extra)

    site.task("start")
    master = daemon(MASTER, "master", "master.Master", "--port", str(PORT), "--webui-port", "0")
    site.await_listening(master, "master", MASTER, PORT)
    for host in WORKERS:
        folder = site.folder / f"work-{host}"
        words = ("--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir", str(folder), url)
        daemon(host, f"worker-{host}", "worker.Worker", *words)
    begun, rounds = time.monotonic(), 0
    while rounds == 0 or time.monotonic() - begun < seconds:
        # Each round begins with another job, so that no job always has the warmest machine.
        for job in (JOBS * 2)[rounds % len(JOBS) :][: len(JOBS)]:
            name = f"{job}-{rounds}"
            extra = {
                **common,
                "SPARK_LOCAL_IP": site.hosts[MASTER],
                "SPARK_LOCAL_DIRS": str(site.folder / "local-driver"),
            }
            argv = [python, str(PROGRAM), "--master", url, "--job", job, "--seed", str(seed * 100 + rounds)]
            argv += ["--scale", str(scale)]
            site.task(job)
            site.wait(site.start(MASTER, argv, name, extra), name, JOB_DEADLINE_S)
        rounds += 1
    version = next(home.glob("jars/spark-core_*.jar")).stem.rpartition("-")[2]
    return {
        "spark": version,
        "jobs": JOBS,
        "scale": scale,
        "rounds": rounds,
        "workers": len(WORKERS),
        "cores_a_worker": 1,
    }
