"""qclimb-run in front of real programs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from qclimb.hostfile import decode_policy, encode_policy

from hostlib.program import find, reason_against
from hostlib.run import LIBRARY, MUSL_LIBRARY, TLS_LIBRARY, preloaded
from lab.build import make
from tests.hostd.bench import BIN, policy

RUN = str(BIN / "qclimb-run")
NOBODY = 65534
SOCKET = (sys.executable, "-c", "import socket; socket.socket()")

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="libqclimb.so is not built: make -C hostlib")


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("QCLIMB_", "LD_"))}
    plain["QCLIMB_RUN"] = str(Path(__file__) / "absent")  # unmanaged, whatever this machine is
    return subprocess.run(
        [RUN, *map(str, arguments)], env=plain | environment, capture_output=True, text=True, timeout=60, check=False
    )


def seen_environment(*options: str | Path, **environment: str) -> dict[str, str]:
    """The environment that a program finds under qclimb-run."""
    done = run(*options, "--", "env", "-0", **environment)
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def compiled(folder: Path, *flags: str) -> Path:
    source = folder / "program.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("it runs"); return 7; }\n')
    program = folder / f"program{len(list(folder.iterdir()))}"
    done = subprocess.run(["gcc", *flags, "-o", program, source], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"gcc {' '.join(flags)} can't link here: {done.stderr.splitlines()[-1:]}")
    return program


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that other users may enter, as pytest's are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_dynamic_program_runs_with_the_library_and_keeps_its_exit_status(tmp_path: Path) -> None:
    done = run("--", compiled(tmp_path))
    assert (done.returncode, done.stdout) == (7, "it runs\n")
    maps = run("--", "cat", "/proc/self/maps").stdout
    assert str(LIBRARY) in maps


def test_nothing_but_the_asked_variables_changes(tmp_path: Path) -> None:
    minimal = {"PATH": os.environ["PATH"], "LC_ALL": "", "ODD": "a=b\udcff"}
    done = subprocess.run([RUN, "env", "-0"], env=minimal, capture_output=True, check=True, timeout=60)
    found = dict(entry.split(b"=", 1) for entry in done.stdout.split(b"\0") if entry)
    expected = {os.fsencode(name): os.fsencode(value) for name, value in minimal.items()}
    assert found == expected | {b"LD_PRELOAD": os.fsencode(LIBRARY)}


def test_options_become_the_librarys_variables(tmp_path: Path) -> None:
    log = os.path.relpath(tmp_path / "x.log")
    found = seen_environment("--mode", "observe", "--log", log, "--run-dir", tmp_path / "none")
    assert found["QCLIMB_MODE"] == "observe"
    assert found["QCLIMB_LOG"] == str(Path(log).absolute())
    assert found["QCLIMB_RUN"] == str(tmp_path / "none")
    assert "QCLIMB_POLICY" not in found
    assert seen_environment("--log", "stderr")["QCLIMB_LOG"] == "stderr"


def test_a_log_that_can_not_be_written_is_said_before_the_program_starts(tmp_path: Path) -> None:
    done = run("--log", tmp_path / "none" / "x.log", "--", "echo", "it", "runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no folder {tmp_path / 'none'}" in done.stderr


def test_the_library_comes_before_what_was_preloaded_and_only_once() -> None:
    ours = os.fsencode(LIBRARY)
    assert preloaded([LIBRARY], b"") == ours
    assert preloaded([LIBRARY], b"/a.so /b.so") == ours + b":/a.so:/b.so"
    assert preloaded([LIBRARY], b"/a.so:" + ours) == ours + b":/a.so"


def test_what_looks_at_plaintext_is_loaded_where_it_is_asked_for() -> None:
    if not TLS_LIBRARY.is_file():
        pytest.skip("needs libqclimb-tls.so (`make -C hostlib tls`)")
    said = run("--tls", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert said.stdout.strip() == f"{LIBRARY}:{TLS_LIBRARY}"
    assert "tls" not in run("--", "sh", "-c", "echo $LD_PRELOAD").stdout


def test_a_broken_pipe_still_ends_the_program() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{RUN} yes | head -1; exit ${{PIPESTATUS[0]}}"], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 128 + 13, done.stderr


def test_a_json_policy_is_compiled_and_outlives_the_start(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy(3).to_json()))
    found = seen_environment("--policy", path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert decode_policy(Path(found["QCLIMB_POLICY"]).read_bytes()) == policy(3)


@pytest.mark.parametrize("option", ["--mode", "--policy"])
def test_on_a_managed_host_an_own_policy_is_refused_rather_than_ignored(tmp_path: Path, option: str) -> None:
    (tmp_path / "policy").write_bytes(encode_policy(policy(3)))
    value = "pias" if option == "--mode" else tmp_path / "policy"
    done = run(option, value, "--run-dir", tmp_path, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path} exists, so that this host follows its hostd's policy" in done.stderr
    assert run(option, value, "--", "true", QCLIMB_RUN=str(tmp_path)).returncode == 2
    assert run("--run-dir", tmp_path, "--", "true").returncode == 0


@pytest.mark.parametrize("mode", [0o644, 0o664])
@pytest.mark.parametrize("kind", ["json", "binary"])
@pytest.mark.parametrize("named_by", ["option", "variable"])
def test_what_it_takes_for_a_policy_the_library_takes_too(tmp_path: Path, named_by: str, kind: str, mode: int) -> None:
    path = tmp_path / "policy"
    path.write_bytes(json.dumps(policy(3).to_json()).encode() if kind == "json" else encode_policy(policy(3)))
    path.chmod(mode)  # who may write it beside us may change what the library does: it would not believe such a file
    options = ["--policy", path] if named_by == "option" else []
    environment = {"QCLIMB_POLICY": str(path)} if named_by == "variable" else {}
    done = run(*options, "--log", "stderr", "--", *SOCKET, XDG_CACHE_HOME=str(tmp_path), **environment)
    assert "policy generation=3" in done.stderr


def test_a_variable_that_names_no_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("{}")
    for name in ("policy", "none"):
        done = run("--", "true", QCLIMB_POLICY=str(tmp_path / name))
        assert done.returncode == 2
        assert name in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_binary_policy_is_used_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_bytes(encode_policy(policy(3)))
    assert seen_environment("--policy", path)["QCLIMB_POLICY"] == str(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{not JSON", "Expecting property name"),
        (b'{"generation": 1, "mod": "pias"}', "did you mean 'mode'?"),
        (encode_policy(policy(1))[:-1], "policy file has 647 bytes, expected 648"),
        (encode_policy(policy(1))[:40] + b"\7" + encode_policy(policy(1))[41:], "crc32"),
        (b"", "policy file has 0 bytes"),
    ],
)
def test_a_bad_policy_is_refused_in_a_sentence_that_names_it(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "policy"
    path.write_bytes(content)
    done = run("--policy", path, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_static_program_is_refused_or_runs_anyway_without_the_library(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-static")
    done = run("--", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert "linked statically" in done.stderr
    done = run("--anyway", "--", program, LD_PRELOAD="")
    assert (done.returncode, done.stdout) == (7, "it runs\n")
    assert "without qclimb" in done.stderr


def test_a_static_position_independent_program_is_refused(tmp_path: Path) -> None:
    assert "linked statically" in run("--", compiled(tmp_path, "-static-pie", "-fPIE")).stderr


def test_a_program_for_another_architecture_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "foreign"
    content = bytearray(compiled(tmp_path).read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
    program.write_bytes(content)
    program.chmod(0o755)
    done = run("--", program)
    assert done.returncode == 2
    assert "is for AARCH64 64-bit LSB, and libqclimb.so for X86_64" in done.stderr


def test_a_musl_program_gets_the_library_that_was_built_for_musl(tmp_path: Path) -> None:
    if not shutil.which("musl-gcc"):
        pytest.skip("needs musl-gcc (Debian: musl-tools)")
    assert make(LIBRARY.parents[1], "musl") == ""
    source, program = tmp_path / "maps.c", tmp_path / "maps"
    source.write_text(
        r"""
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[4096];
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), file))
        if (strstr(line, "libqclimb"))
            fputs(line, stdout);
    return 7;
}
"""
    )
    subprocess.run(["musl-gcc", "-o", program, source], check=True)
    done = run("--", program)
    assert done.returncode == 7, done.stderr
    assert {line.split()[-1] for line in done.stdout.splitlines()} == {str(MUSL_LIBRARY)}
    assert "runs on musl" in (reason_against(program, LIBRARY, "/bin") or "")
    assert "runs on glibc" in (reason_against(Path("/bin/sh"), MUSL_LIBRARY, "/bin") or "")


def test_a_musl_program_is_refused_where_no_library_was_built_for_musl(tmp_path: Path) -> None:
    program = tmp_path / "musl"
    theirs, musl = b"/lib64/ld-linux-x86-64.so.2\0", b"/lib/ld-musl-x86_64.so.1\0"
    content = compiled(tmp_path).read_bytes()
    assert theirs in content
    program.write_bytes(content.replace(theirs, musl.ljust(len(theirs), b"\0")))
    program.chmod(0o755)
    assert "runs on musl" in (reason_against(program, LIBRARY, "/bin") or "")


@pytest.mark.parametrize("flags", [(), ("-static",)])
@pytest.mark.parametrize("section", [".go.buildinfo", ".note.go.buildid"])
def test_what_has_a_section_of_gos_is_refused(tmp_path: Path, section: str, flags: tuple[str, ...]) -> None:
    program = compiled(tmp_path, *flags)
    marked = tmp_path / "marked"
    subprocess.run(["objcopy", "--add-section", f"{section}={__file__}", program, marked], check=True)
    assert "is a Go program" in (reason_against(marked, LIBRARY, "/bin") or "")


@pytest.mark.system
@pytest.mark.parametrize("cgo", ["0", "1"])
def test_a_go_program_is_refused_linked_either_way(tmp_path: Path, cgo: str) -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("no go here")
    # With cgo, os/user links against libc: a dynamic program, with an interpreter, and still past libc.
    source = tmp_path / "main.go"
    text = 'package main\n\nimport (\n\t"os"\n\t"os/user"\n)\n\nfunc main() { user.Current(); os.Exit(7) }\n'
    source.write_text(text)
    settings = {"GO111MODULE": "off", "CGO_ENABLED": cgo}
    build = [go, "build", "-o", "program", "-ldflags=-s -w", "main.go"]
    subprocess.run(build, cwd=tmp_path, env=os.environ | settings, check=True, timeout=170)
    done = run("--", tmp_path / "program")
    assert done.returncode == 2
    assert "is a Go program" in done.stderr
    assert run("--anyway", "--", tmp_path / "program").returncode == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_a_program_that_changes_its_user_or_group_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "own-id"
    shutil.copy("/usr/bin/id", program)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{tmp_path} is mounted nosuid")
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    assert f"is set-user-ID to user {NOBODY}" in run("--", program).stderr
    program.chmod(0o2755)
    assert f"is set-group-ID to group {NOBODY}" in run("--", program).stderr
    # The same bit for the user one already is: the kernel changes nothing, and the library is loaded.
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    assert run("--", program).returncode == 0


def test_what_is_judged_secure_is_what_the_kernel_finds_secure(tmp_path: Path) -> None:
    """AT_SECURE of the running program, against our reading of its file."""
    if os.geteuid() != 0:
        pytest.skip("giving a file to another user needs root")
    source = tmp_path / "secure.c"
    source.write_text("#include <sys/auxv.h>\nint main(void) { return getauxval(AT_SECURE) ? 9 : 0; }\n")
    program = tmp_path / "secure"
    subprocess.run(["gcc", "-o", program, source], check=True)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"{tmp_path} is mounted nosuid")
    judged, real = {}, {}
    for owner in (0, NOBODY):
        for mode in (0o755, 0o4755, 0o2755, 0o2745, 0o6755):
            os.chown(program, owner, owner)
            program.chmod(mode)
            judged[owner, oct(mode)] = "LD_PRELOAD" in (reason_against(program, LIBRARY, "/bin") or "")
            real[owner, oct(mode)] = subprocess.run([program], check=False).returncode == 9
    assert judged == real
    assert set(real.values()) == {True, False}


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_file_capabilities_count_for_users_other_than_root(public_path: Path) -> None:
    if not shutil.which("setcap"):
        pytest.skip("no setcap here")
    program = compiled(public_path)
    subprocess.run(["setcap", "cap_net_raw+ep", program], check=True)
    assert run("--", program).returncode == 7
    judge = (
        "import sys; from pathlib import Path; from hostlib.program import reason_against as r;"
        "print(r(Path(sys.argv[1]), Path(sys.argv[2]), '/bin'))"
    )
    done = subprocess.run(
        [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            BIN / "python",
            "-c",
            judge,
            program,
            LIBRARY,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "has file capabilities" in done.stdout, done.stderr


def test_scripts_are_followed_to_their_interpreter(tmp_path: Path) -> None:
    static = compiled(tmp_path, "-static")
    fine, by_env, bad, nested, gone = (tmp_path / name for name in ("fine", "by-env", "bad", "nested", "gone"))
    for path, line in (
        (fine, "#!/bin/sh -e"),
        (by_env, "#!/usr/bin/env -S LC_ALL=C sh"),
        (bad, f"#!{static}"),
        (nested, f"#! {bad}"),
        (gone, "#!/no/such/thing"),
    ):
        path.write_text(f"{line}\ncat /proc/self/maps\n")
        path.chmod(0o755)
    for path in (fine, by_env):
        assert str(LIBRARY) in run("--", path).stdout
    for path in (bad, nested):
        assert f"(by way of {static}) is linked statically" in run("--", path).stderr
    assert "'/no/such/thing', and there is none" in run("--", gone).stderr


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(100), b"just text\n", b"#!\n", b"#!   \nx"])
def test_what_is_no_program_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    path.chmod(0o755)
    done = run("--", path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(path) in done.stderr


def test_a_name_that_is_nowhere_on_path_is_refused() -> None:
    done = run("--", "no-such-program-anywhere")
    assert (done.returncode, "no such program" in done.stderr) == (2, True)
    assert find("sh", "/nowhere:/bin") == Path("/bin/sh")
    assert find("sh", "/nowhere") is None
    assert find("sh", f"/{'n' * 300}:/bin") == Path("/bin/sh")  # as of one that is closed: it can't be looked into


def test_help_shows_an_example() -> None:
    assert "qclimb-run -- curl" in run("--help").stdout
