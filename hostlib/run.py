"""The command `qclimb-run`: LD_PRELOAD=libqclimb.so, with a word where it can't work."""

import hashlib
import json
import os
import signal
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from qclimb.errors import PolicyError, QclimbError
from qclimb.hostfile import decode_policy, encode_policy
from qclimb.options import Output, Refused, version_option
from qclimb.policy import Mode, Policy

from hostlib.hostd.place import RUN_DIR, Place, write_whole
from hostlib.hostd.programs import cgroup_of, is_within
from hostlib.hostd.state import read_state
from hostlib.program import find, reason_against

LIBRARY = Path(__file__).parent / "build" / "libqclimb.so"
TLS_LIBRARY = LIBRARY.with_name("libqclimb-tls.so")
MUSL_LIBRARY = LIBRARY.parent / "musl" / LIBRARY.name
"""For programs on musl; where it was built."""
POLICY_FILE_BYTES_MAX = 1 << 16


class Log(Output):
    """`stderr`, or a file that can be written: the library itself would say nothing of one that can't."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; `stderr` as it is."""
        return Path(value) if value == "stderr" else super().convert(value, param, ctx).absolute()


EXAMPLE = """\b
Examples:
  qclimb-run -- curl -O http://198.19.1.1/file
  qclimb-run --mode observe --log stderr -- redis-server
  qclimb-run --policy policy.json -- ./server --port 8080
"""


@click.command(
    epilog=EXAMPLE,
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": False,
        "allow_interspersed_args": False,
        "max_content_width": 120,
    },
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A policy, as JSON or as the host file, instead of the built-in thresholds.",
)
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="Instead of the policy's mode.")
@click.option("--log", type=Log(), metavar="FILE", help="Where the library says what it does: `stderr` or a file.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="A hostd's run directory, instead of /run/qclimb; one that does not exist: unmanaged.",
)
@click.option(
    "--tls", is_flag=True, help="Also look at HTTP headers that the program hands to OpenSSL, for its flows' sizes."
)
@click.option("--anyway", is_flag=True, help="Run a program that can't be shimmed without the library.")
@version_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def main(
    policy: Path | None,
    mode: str | None,
    log: Path | None,
    run_dir: Path | None,
    tls: bool,
    anyway: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND with its flows scheduled by qclimb; nothing else about it changes."""
    environment = inherited_environment()
    search_path = os.fsdecode(environment.get(b"PATH", os.defpath.encode()))
    program = find(command[0], search_path)
    if program is None:
        _stop(f"{command[0]}: no such program; expected an executable file or a name on PATH")
    if not LIBRARY.is_file():
        _stop(f"{LIBRARY}: no such file; expected libqclimb.so, which `make -C hostlib` builds")
    if set(str(LIBRARY)) & set(" :"):
        _stop(f"{LIBRARY}: LD_PRELOAD can't name a path with a blank or a colon; expected another place")
    library, reason = LIBRARY, reason_against(program, LIBRARY, search_path)
    if reason and MUSL_LIBRARY.is_file() and reason_against(program, MUSL_LIBRARY, search_path) is None:
        library, reason = MUSL_LIBRARY, None
    if reason is None:
        try:
            environment.update(_settings(policy, mode, log, run_dir))
        except (QclimbError, OSError) as error:
            _stop(str(error))
        if tls and not TLS_LIBRARY.is_file():
            _stop(f"{TLS_LIBRARY}: no such file; expected what `make -C hostlib tls` builds")
        if tls and library != LIBRARY:
            _stop(f"{command[0]} runs on musl; expected a program on glibc for --tls")
        libraries = [library, TLS_LIBRARY] if tls else [library]
        environment[b"LD_PRELOAD"] = preloaded(libraries, environment.get(b"LD_PRELOAD", b""))
    elif _is_served_by_kernel(run_dir):
        click.echo(f"qclimb-run: {command[0]} {reason}; the kernel mode of this host serves it", err=True)
    elif anyway:
        click.echo(f"qclimb-run: {command[0]} {reason}; it runs without qclimb", err=True)
    else:
        _stop(
            f"{command[0]} {reason}; the kernel mode (qclimb-hostd --kernel) would serve it, "
            "--anyway runs it without qclimb"
        )
    _become(program, command, environment)


def _is_served_by_kernel(run_dir: Path | None) -> bool:
    """Whether the cgroup that the program inherits is one that this host's hostd serves without the library."""
    place = Place(run_dir or Path(os.environ.get("QCLIMB_RUN") or RUN_DIR))
    try:
        served = read_state(place.status)["kernel_cgroups"]
        return is_within(cgroup_of("self"), map(Path, served))
    except (QclimbError, OSError):
        return False


def preloaded(libraries: Sequence[Path], already: bytes) -> bytes:
    """The new LD_PRELOAD: the libraries before what was there."""
    ours = [os.fsencode(library) for library in libraries]
    others = [path for path in already.replace(b" ", b":").split(b":") if path and path not in ours]
    return b":".join([*ours, *others])


def inherited_environment() -> dict[bytes, bytes]:
    """The environment as it came: Python itself puts LC_CTYPE into os.environ where the locale is C (PEP 538)."""
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environb)
    entries = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in entries}


def _settings(policy: Path | None, mode: str | None, log: Path | None, run_dir: Path | None) -> dict[bytes, bytes]:
    """The library's environment variables for the options that were given."""
    managed = run_dir or Path(os.environ.get("QCLIMB_RUN") or RUN_DIR)
    if (policy or mode) and managed.exists():  # the library would not look at them, and say nothing
        raise PolicyError(
            f"{managed} exists, so that this host follows its hostd's policy; expected neither --policy nor --mode, "
            "or a --run-dir that does not exist"
        )
    found: dict[str, str | Path] = {}
    if policy is None and not managed.exists() and (named := os.environ.get("QCLIMB_POLICY")):
        policy = Path(named)  # the library itself takes no JSON
    if policy is not None:
        found["QCLIMB_POLICY"] = binary_policy(policy)
    if mode is not None:
        found["QCLIMB_MODE"] = mode
    if log is not None:
        found["QCLIMB_LOG"] = log
    if run_dir is not None:
        found["QCLIMB_RUN"] = run_dir.absolute()
    return {name.encode(): os.fsencode(value) for name, value in found.items()}


def binary_policy(path: Path) -> Path:
    """The host file of a policy: `path` itself where it is one that the library believes, else a copy of our own.

    Raises:
        PolicyError: neither a host file nor JSON of a valid policy.
    """
    with path.open("rb") as file:
        content = file.read(POLICY_FILE_BYTES_MAX + 1)
    if content.lstrip().startswith(b"{"):
        try:
            return _kept(encode_policy(Policy.from_json(json.loads(content))))
        except (ValueError, RecursionError, PolicyError) as error:
            raise PolicyError(f"policy {path}: {error}") from error
    try:
        decode_policy(content)
    except PolicyError as error:
        raise PolicyError(f"policy {path}: {error}; expected a host file, or JSON") from error
    return path.absolute() if _is_believed(path) else _kept(content)


def _is_believed(path: Path) -> bool:
    """Whether the library takes a policy from here, whoever names it (hostlib/shim/rules/rules.c)."""
    found = path.stat()
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _kept(content: bytes) -> Path:
    """A file with this content in the user's cache, named by its digest: it outlives us, who become the application."""
    name = f"policy-{hashlib.sha256(content).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "qclimb"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(cache / name, content, durable=False)
    except (OSError, QclimbError):
        handle, made = tempfile.mkstemp(prefix=f"qclimb-{name}-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return Path(made)
    return cache / name


def _become(program: Path, command: tuple[str, ...], environment: dict[bytes, bytes]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and exec would hand that on
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        _stop(f"{program}: {error.strerror}; expected a program that this machine can run")


def _stop(sentence: str) -> NoReturn:
    raise Refused(sentence)


if __name__ == "__main__":
    main()
