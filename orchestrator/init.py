"""The first command of a newcomer: certificates and settings in one folder, from which `serve --config` starts."""

import grp
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from qclimb.errors import QclimbError
from qclimb.pki import Authority, is_name

SERVER, CLIENT, SETTINGS = "orchestrator-server", "orchestrator", "orchestrator.toml"
"""What REST shows, what switches are shown (also its common name), and the options of `serve`."""
OWN = (SERVER, CLIENT, "ca")


@dataclass(frozen=True)
class Done:
    """What was made, and what was there and stays; names of files in the folder."""

    made: tuple[str, ...]
    kept: tuple[str, ...]


def settings(folder: Path, state: Path, address: str, port: int, options: Mapping[str, tuple[str, Any]]) -> str:
    """The options of `serve`, as TOML: each with what it says; those that stay at their default behind a #.

    `options`: what each says, and its default.
    """
    from .store.sqlite_file import url_of  # SQLAlchemy takes a tenth of a second, and the command line lists this

    listen = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    values = {
        "listen": listen,
        "database": url_of(state / "store.db"),
        "bootstrap_token_file": str(state / "admin.token"),
        "tls_cert": str(folder / f"{SERVER}.pem"),
        "tls_key": str(folder / f"{SERVER}.key"),
        "switch_cert": str(folder / f"{CLIENT}.pem"),
        "switch_key": str(folder / f"{CLIENT}.key"),
        "switch_ca": str(folder / "ca.pem"),
    }
    lines = ["# Settings of `qclimb-orchestrator serve`. What stands behind a # is the default, or an example.\n"]
    for name, (says, default) in options.items():
        is_told = name in values
        value = values.get(name, default if isinstance(default, str | int | float | list) else "")
        lines += [f"\n# {line}" for line in wrap(says, 100)]
        lines.append(f"\n{'' if is_told else '# '}{name} = {json.dumps(value)}\n")
    return "".join(lines)


def init(
    folder: Path,
    state: Path,
    address: str,
    port: int,
    switches: Mapping[str, str],
    renew: bool,
    group: str | None,
    options: Mapping[str, tuple[str, Any]],
) -> Done:
    """Makes what is not there; `renew`: certificates of the same CA anew.

    Args:
        state: where the database and the first admin token will lie.
        address: the IP address under which hosts and operators reach REST.
        switches: IP address of each switch's management, by its name.
        group: may read what the orchestrator needs: its keys and settings.
        options: of `serve`, each with what it says and its default.

    Raises:
        QclimbError: a name is taken, a file can't be written or is no CA's, there is no such group.
    """
    taken = [name for name in switches if name in OWN]
    if taken:
        raise QclimbError(f"--switch {taken[0]}=...: the name is one of the orchestrator's own, expected another")
    unfit = [name for name in switches if not is_name(name)]
    if unfit:
        raise QclimbError(f"--switch {unfit[0]!r}=...: expected a name of letters, digits, _, . and -")
    if group is not None:
        try:
            grp.getgrnam(group)
        except KeyError:
            raise QclimbError(
                f"--group {group}: there is no such group, expected the one of the service: the package "
                f"qclimb-orchestrator makes its own; without it make one (groupadd --system {group}), or "
                "leave --group out"
            ) from None
    folder, state = folder.absolute(), state.absolute()
    had_ca = (folder / "ca.pem").exists()
    authority = Authority(folder)
    made, kept = ([], ["ca.pem"]) if had_ca else (["ca.pem"], [])
    for name in (SERVER, CLIENT, *switches):
        if (folder / f"{name}.pem").exists() and not renew:
            kept.append(f"{name}.pem")
            continue
        if name == CLIENT:
            authority.client(name)
        else:
            authority.server(name, switches.get(name, address))
        made.append(f"{name}.pem")
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (kept if _settle(folder / SETTINGS, settings(folder, state, address, port, options)) else made).append(SETTINGS)
        if group is not None:
            for path in (folder / SETTINGS, folder / f"{SERVER}.key", folder / f"{CLIENT}.key"):
                shutil.chown(path, group=group)
                path.chmod(0o640)
    except OSError as error:
        raise QclimbError(f"{error.filename or folder}: {error.strerror}, expected a place for settings") from None
    return Done(tuple(made), tuple(kept))


def _settle(path: Path, text: str) -> bool:
    """Whether the settings were there; writes them where not."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return True
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink()  # half of them would count as there
        raise
    return False
