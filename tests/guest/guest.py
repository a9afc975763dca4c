"""A kernel of Debian's, booted under qemu without hardware help (TCG), with this machine's files below it.

`package` has apt bring a kernel; `Guest.run` boots it with an initramfs made of its own modules and of `init.c`, and
runs a command as root there. The guest sees the host's root directory, or another tree of files, through a layer of
memory: it changes nothing.
"""

import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qclimb" / "kernels"
MEMORY_MB = 2048
QEMU = "qemu-system-x86_64"
CPU = "max,la57=off"
LEAN = "no5lvl init_on_alloc=0 apparmor=0 audit=0 tsc=reliable nokaslr"
"""What of a kernel costs much by emulation and is not tried here; so do page tables of five levels."""
MODULES = (
    *("crc32c_generic", "virtio_pci", "9pnet_virtio", "9p", "overlay", "veth", "dummy", "bridge", "af_packet"),
    *("inet_diag", "tcp_diag", "sch_htb", "sch_prio", "sch_ets", "sch_netem", "sch_tbf", "sch_red", "sch_ingress"),
    *("sch_fq", "sch_mq", "cls_u32", "cls_bpf", "cls_flower", "cls_matchall", "act_mirred", "act_bpf"),
    *("tcp_bbr", "tcp_dctcp", "nf_tables", "nft_ct", "nft_numgen"),
)
"""What the tests use, by name; those that a kernel has built in, or has not at all, are left out."""
COMMAND = "command.service"
COMMAND_UNIT = """[Unit]
Wants=basic.target
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
[Service]
Type=oneshot
StandardOutput=append:/run/out/output
StandardError=append:/run/out/output
ExecStart=/bin/sh /run/command
ExecStopPost=/bin/sh -c 'echo "$EXIT_STATUS" >/run/out/status; journalctl -b -o cat --no-pager >/run/out/journal'
"""


class GuestError(Exception):
    """No guest can be had here; the sentence says why."""


@dataclass(frozen=True)
class Run:
    """What a command in the guest came to: its exit status (None: it did not end), output, and the console's; and what
    it left in /run/out, by name."""

    status: int | None
    output: str
    console: str
    files: Mapping[str, str]


def apt(*words: str, options: tuple[str, ...] = (), where: Path | None = None) -> str:
    done = subprocess.run(["apt-get", *options, *words], cwd=where, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise GuestError(f"apt-get {' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def suite_options(suite: str, work: Path) -> tuple[str, ...]:
    """apt's words by which it knows one suite of the archive that this machine uses, and keeps its lists in `work`."""
    told = apt("indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages", "Origin: Debian")
    found = [line.split() for line in told.splitlines()]
    main = next((words for words in found if re.fullmatch(r"[a-z]+", words[1])), None)
    if main is None:
        raise GuestError("apt knows no archive of Debian's")
    site, release = main
    source = work / "sources.list"
    source.write_text(f"deb {site} {release}-{suite} main\n")
    (work / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    named = {"Etc::sourcelist": source, "Etc::sourceparts": "/dev/null", "State::lists": work / "lists", "Cache": work}
    options = tuple(word for name, value in named.items() for word in ("-o", f"Dir::{name}={value}"))
    apt("update", options=options)
    return options


def package(suite: str = "") -> Path:
    """The unpacked kernel package that linux-image-amd64 means in this machine's release, or in a suite beside it
    ("backports"). Fetched once; raises GuestError where it can't be had."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        work = Path(name)
        options = suite_options(suite, work) if suite else ()
        told = subprocess.run(
            ["apt-cache", *options, "depends", "linux-image-amd64"], capture_output=True, text=True, timeout=60
        ).stdout
        found = re.search(r"Depends: (linux-image-\S+)", told)
        if found is None:
            raise GuestError(
                f"apt knows no linux-image-amd64{' of ' + suite if suite else ''}: is `apt-get update` due?"
            )
        there = CACHE / found[1]
        if not there.is_dir():
            apt("download", found[1], options=options, where=work)
            unpacked = work / "unpacked"
            subprocess.run(["dpkg-deb", "-x", next(work.glob("linux-image-*.deb")), unpacked], check=True)
            unpacked.rename(there)
        return there


def needs() -> None:
    """Raises GuestError where this machine can boot no guest."""
    if os.uname().machine != "x86_64":
        raise GuestError("needs a machine of type x86_64: its programs run in the guest")
    for tool, by in ((QEMU, "apt-get install qemu-system-x86"), ("cc", "make setup"), ("dpkg-deb", "Debian")):
        if not shutil.which(tool):
            raise GuestError(f"needs {tool} ({by})")


def plain(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def in_order(kernel: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of these modules and those that they need, each after what it needs."""
    there = {path.name.split(".")[0].replace("-", "_"): path for path in kernel.rglob("*.ko*")}
    done: set[str] = set()

    def visit(name: str) -> Iterator[tuple[str, bytes]]:
        if name in done or name not in there:
            return
        done.add(name)
        data = plain(there[name])
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for needed in depends[1].decode().split(",") if depends else ():
            yield from visit(needed.replace("-", "_"))
        yield name, data

    for name in wanted:
        yield from visit(name.replace("-", "_"))


def archive(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """An initramfs: files by path with their modes, as "newc" cpio has them (the kernel's buffer-format.rst)."""
    out = bytearray()
    for number, (path, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


@dataclass(frozen=True)
class Guest:
    """A kernel package, unpacked."""

    kernel: Path

    @property
    def release(self) -> str:
        return next((self.kernel / "lib" / "modules").iterdir()).name

    def initramfs(self, command: str, work: Path, by_systemd: bool) -> Path:
        init = work / "init"
        subprocess.run(["cc", "-static", "-O1", "-Wall", "-Werror", "-o", init, HERE / "init.c"], check=True)
        files = {"init": (0o100755, init.read_bytes()), "command": (0o100644, command.encode())}
        files |= {"dev": (0o040755, b""), "modules": (0o040755, b"")}
        if by_systemd:
            files["systemd"] = (0o100644, b"")
        for number, (name, data) in enumerate(in_order(self.kernel, MODULES)):
            files[f"modules/{number:03}-{name}.ko"] = (0o100644, data)
        made = work / "initramfs"
        made.write_bytes(archive(files))
        return made

    def run(self, command: str, timeout_s: float, root: Path = Path("/"), by_systemd: bool = False) -> Run:
        """Boots, runs the shell's `command` as root, powers off. By systemd: the first process is that of `root`, and
        the command its unit COMMAND."""
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            out = work / "out"
            out.mkdir()
            argv = [QEMU, "-accel", "tcg", "-cpu", CPU, "-m", str(MEMORY_MB), "-nodefaults", "-display", "none"]
            argv += ["-no-reboot", "-serial", f"file:{work / 'console'}", "-initrd"]
            argv.append(str(self.initramfs(command, work, by_systemd)))
            argv += ["-kernel", str(next((self.kernel / "boot").glob("vmlinuz-*")))]
            words = f"console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on {LEAN}"
            argv += ["-append", f"{words} systemd.unit={COMMAND}" if by_systemd else words]
            for tag, path, words in (("root", str(root), ",readonly=on"), ("out", str(out), "")):
                argv += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{words}"]
            guest = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                said = guest.communicate(timeout=timeout_s)[1]
            except subprocess.TimeoutExpired:
                guest.kill()
                said = guest.communicate()[1]
            files = {path.name: path.read_text(errors="replace") for path in out.iterdir()}
            console = (work / "console").read_text(errors="replace") if (work / "console").exists() else ""
            status = files.get("status", "").strip()
            return Run(int(status) if status else None, files.get("output", ""), console + said, files)
