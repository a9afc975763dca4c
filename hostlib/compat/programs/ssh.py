"""OpenSSH: a command, scp and rsync by a daemon that seals its children (seccomp), and ports forwarded each way."""

import getpass
import os
from pathlib import Path

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import body, same, same_file

SIZE = 20_000_000
SSHD = "/usr/sbin/sshd"
CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
Subsystem sftp internal-sftp
"""


def run(bed: Bed) -> Outcome:
    """Each way moves the same file. `sshd -r` serves by a fork of what accepted, else the daemon starts itself anew."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where Debian's sshd shuts its children in
    for name in ("host", "user"):
        bed.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", bed.folder / name)
    (bed.folder / "big").write_bytes(body(SIZE))
    results: dict[str, str] = {}
    for how, more in (("anew", ()), ("forked", ("-r",))):
        results |= {f"{name}, {how}": word for name, word in _ways(bed, more, how)}
    return Outcome(results)


def _ways(bed: Bed, more: tuple[str, ...], how: str) -> list[tuple[str, str]]:
    port, wanted, big = bed.port(), body(SIZE), bed.folder / "big"
    config = bed.folder / f"sshd-{how}"
    config.write_text(CONFIG.format(port=port, folder=bed.folder))
    bed.serve(SSHD, "-D", "-e", *more, "-f", config, port=port)
    words = [f"IdentityFile={bed.folder}/user", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
    words += ["LogLevel=ERROR", "IdentitiesOnly=yes", "ConnectTimeout=20", f"User={getpass.getuser()}"]
    options = [word for option in words for word in ("-o", option)]
    ssh, place = ["ssh", *options, "-p", str(port), "127.0.0.1"], f"127.0.0.1:{bed.folder}"
    said = bed.run(*ssh, "cat", big, timeout_s=60).stdout
    found = [("cat over ssh", same(said, wanted))]
    for name, command in (
        ("scp up", ["scp", "-q", *options, "-P", str(port), big, f"{place}/got-up-{how}"]),
        ("scp down, old protocol", ["scp", "-q", "-O", *options, "-P", str(port), f"{place}/big", f"got-down-{how}"]),
        ("rsync", ["rsync", "-q", "-e", " ".join(["ssh", *options, "-p", str(port)]), big, f"{place}/got-rsync-{how}"]),
    ):
        bed.run(*command, timeout_s=60)
        found.append((name, same_file(Path(bed.folder / str(command[-1]).rpartition("/")[2]), wanted)))
    web, there, back = bed.port(), bed.port(), bed.port()
    bed.serve("python3", "-m", "http.server", "-b", "127.0.0.1", "-d", bed.folder, str(web), port=web)
    forward = ["-N", "-L", f"127.0.0.1:{there}:127.0.0.1:{web}", "-R", f"127.0.0.1:{back}:127.0.0.1:{web}"]
    bed.serve(*ssh[:-1], *forward, ssh[-1], port=back)
    for name, gate in (("forwarded there", there), ("forwarded back", back)):
        done = bed.run("curl", "-sS", f"http://127.0.0.1:{gate}/big", statuses=None, timeout_s=60)
        found.append((name, same(done.stdout, wanted) if not done.returncode else verdict(False, done.stderr)))
    return found


PROGRAM = Program(
    "ssh",
    "OpenSSH: a daemon that seals its children, scp, rsync, forwarded ports",
    (
        (SSHD, "openssh-server"),
        ("ssh", "openssh-client"),
        ("rsync", "rsync"),
        ("curl", "curl"),
        ("python3", "python3"),
    ),
    run,
)
