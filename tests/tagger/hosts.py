"""A host of the bench as the tagger sees it: a namespace, a run directory with a BPF file system, and its programs."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import stand
from qclimb.policy import Policy

from hostlib.hostd.place import Place
from hostlib.hostd.tagger import Tagger
from lab.fabric.netns import entered

PORTS = count(7000)


@dataclass
class Host:
    netns: str
    run_dir: Path
    bench: stand.Bench

    def tagger(self, policy: Policy, *, use_filter: bool = True) -> Tagger:
        """Loads and attaches it, and puts the policy where the library finds it."""
        stand.put_policy(self.run_dir, policy)
        tagger = Tagger(Place(self.run_dir), ("e0",), use_filter=use_filter)
        with entered(self.netns):
            tagger.follow(policy)
        assert not tagger.problem, tagger.problem
        return tagger

    def start(self, argv, **env: str) -> subprocess.Popen:
        return self.bench.start(self.netns, argv, self.run_dir, **env)

    def counter(self, name: str) -> int:
        """One of the kernel's network counters of this host."""
        nstat = subprocess.check_output(["ip", "netns", "exec", self.netns, "nstat", "-asz", name], text=True)
        return int(nstat.splitlines()[1].split()[1])


@contextmanager
def hosts(path: Path, **bench) -> Iterator[tuple[Host, Host]]:
    with ExitStack() as stack:
        link = stack.enter_context(stand.bench(path, **bench))
        made = []
        for name, netns in (("a", link.a), ("b", link.b)):
            run_dir = path / name
            (run_dir / "bpf").mkdir(parents=True)
            # Here and not by hostd, so that it is seen by what `ip netns exec` starts.
            stand.run("mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(run_dir / "bpf"))
            stack.callback(subprocess.run, ["umount", "-l", str(run_dir / "bpf")], check=True)
            made.append(Host(netns, run_dir, link))
        yield made[0], made[1]


def talk(a: Host, b: Host, *, to: str = stand.B, capture_at: str = "b", env=None, **source) -> tuple:
    """One conversation under the library: (the stream as captured, what the source said)."""
    return stand.conversation(
        a.bench.capture(capture_at),
        next(PORTS),
        lambda words: b.start([stand.PYTHON, stand.TALK, *words]),
        lambda words: a.start([stand.PYTHON, stand.TALK, *words], **(env or {})),
        {"address": to, **source},
        heard_by=capture_at,
    )
