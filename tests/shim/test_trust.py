"""Whose policy and environment the library believes: what only root or the user alone could have written."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode
from stand import LIBRARY, PYTHON, environment, hostd, policy, put_policy, records_of, wait_until

NOBODY = 65534


@pytest.fixture
def public_dir():
    """A run directory that other users can enter."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv: gives files to other users")
    path = Path(tempfile.mkdtemp(prefix="qclimb-owner"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def policies_seen(run_dir: Path, user: int = 0, **env: str) -> list[str]:
    """What a program of that user says about the policies that it read."""
    library = run_dir.parent / f"{run_dir.name}.so"  # a copy that every user may read
    shutil.copy(LIBRARY, library)
    library.chmod(0o755)
    try:
        done = subprocess.run(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", f"LD_PRELOAD={library}", "true"],
            env={"PATH": os.environ["PATH"], "QCLIMB_LOG": "stderr", "QCLIMB_RUN": str(run_dir), **env},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        library.unlink()
    return [line.split("] ", 1)[1].split(" ", 2)[2] for line in done.stderr.splitlines() if "policy " in line.lower()]


def own(path: Path, user: int, mode: int = 0o644) -> None:
    os.chown(path, user, user)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("user", "owner", "mode", "is_believed"),
    [
        (0, 0, 0o644, True),
        (0, NOBODY, 0o644, False),
        (0, 0, 0o664, False),
        (0, 0, 0o646, False),
        (NOBODY, 0, 0o644, True),
        (NOBODY, NOBODY, 0o600, True),
        (NOBODY, NOBODY - 1, 0o644, False),
        (NOBODY, NOBODY, 0o622, False),
    ],
)
def test_a_policy_is_believed_when_root_or_the_user_alone_could_write_it(public_dir, user, owner, mode, is_believed):
    put_policy(public_dir, policy(generation=77))
    own(public_dir / "policy", owner, mode)
    seen = policies_seen(public_dir, user)
    if is_believed:
        assert len(seen) == 1
        assert "generation=77 mode=pias" in seen[0]
    else:  # as a managed host without a policy: it only observes
        assert "policy file refused: error 1" in seen[0]
        assert "mode=observe" in seen[1]


@pytest.mark.parametrize("owner", [NOBODY, NOBODY - 1])
def test_an_own_policy_of_somebody_else_and_the_mode_beside_it_are_ignored(public_dir, owner):
    file = public_dir / "own"
    file.write_bytes(encode_policy(policy(Mode.QCLIMB, generation=78)))
    own(file, owner)
    settings = {"QCLIMB_RUN": str(public_dir / "nowhere"), "QCLIMB_POLICY": str(file), "QCLIMB_MODE": "observe"}
    seen = policies_seen(public_dir, NOBODY, **settings)
    if owner == NOBODY:
        assert "generation=78 mode=observe" in seen[0]
    else:
        assert "others than this user and root may write it" in seen[0] and "mode pias, as if none" in seen[0]
        assert "mode=pias priorities=8" in seen[1]  # what a host without any file or setting does


def test_a_refused_policy_counts_once_its_owner_is_put_right(public_dir):
    """No new content, no new name: the change of owner alone is noticed."""
    put_policy(public_dir, policy(generation=79))
    own(public_dir / "policy", NOBODY)
    code = """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
os.chown(os.environ["QCLIMB_RUN"] + "/policy", 0, 0); time.sleep(0.25)
client.sendall(b"x")
"""
    done = subprocess.run(
        [PYTHON, "-c", code], env=environment(public_dir, QCLIMB_LOG="stderr"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "policy generation=79 mode=pias" in done.stderr


SECURE = """
#include <arpa/inet.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), peer, tos = 0;
    if (bind(listener, (void *)&address, len) || listen(listener, 1) || getsockname(listener, (void *)&address, &len) ||
        connect(client, (void *)&address, len) || (peer = accept(listener, NULL, NULL)) < 0 ||
        send(client, "qclimb", 6, 0) != 6 || read(peer, &tos, 1) != 1)
        return 1;
    close(client);
    return getauxval(AT_SECURE) ? 7 : 8;
}
"""


def test_a_setuid_program_follows_no_environment_and_tells_nobody(public_dir):
    """Linked with the library, as ld.so ignores LD_PRELOAD there already."""
    library, program, log = public_dir / "libqclimb.so", public_dir / "secure", public_dir / "log"
    shutil.copy(LIBRARY, library)
    library.chmod(0o755)
    (public_dir / "secure.c").write_text(SECURE)
    link_with = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{public_dir}"]
    subprocess.run(["cc", "-o", program, public_dir / "secure.c", *link_with], check=True)
    run_dir = public_dir / "run"
    put_policy(run_dir, policy(generation=80))
    own_policy = public_dir / "own"
    own_policy.write_bytes(encode_policy(policy(generation=81)))
    own(own_policy, 0)
    settings = {"QCLIMB_RUN": str(run_dir), "QCLIMB_POLICY": str(own_policy), "QCLIMB_MODE": "observe"}

    def outcome(mode):
        program.chmod(mode)
        log.unlink(missing_ok=True)
        with hostd(run_dir) as datagrams:
            (run_dir / "records").chmod(0o666)
            done = subprocess.run(
                ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program],
                env={**settings, "QCLIMB_LOG": str(log)},
            )
            if mode == 0o755:
                wait_until(lambda: records_of(datagrams))
        (run_dir / "records").unlink()
        return done.returncode, log.exists(), [r.size_bytes for r in records_of(datagrams)]

    assert outcome(0o755) == (8, True, [6])
    code, has_log, sizes = outcome(0o4755)
    if code == 8:
        pytest.skip("a setuid copy does not run with more rights here")
    assert (code, has_log, sizes) == (7, False, [])
