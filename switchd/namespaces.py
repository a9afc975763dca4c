"""Where the databases of one ASIC are, on a switch that has several: SONiC's database_global.json tells."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qclimb.errors import QclimbError

from switchd.db import NAMES

GLOBAL = Path("/var/run/redis/sonic-db/database_global.json")


def is_namespace(name: str) -> bool:
    """Whether this is SONiC's name of an ASIC's namespace."""
    return re.fullmatch("asic[0-9]{1,3}", name) is not None


def several() -> list[str]:
    """The namespaces of a switch that has several ASICs, as SONiC tells its containers; [] where there is one."""
    count = os.environ.get("NAMESPACE_COUNT", "")
    return [f"asic{n}" for n in range(int(count))] if re.fullmatch("[0-9]{1,3}", count) and int(count) > 1 else []


def unknown(place: str, namespace: str, known: Iterable[str]) -> QclimbError:
    """What to raise where `place` tells of no such namespace."""
    return QclimbError(f"{place} has no namespace {namespace!r}, expected one of {', '.join(sorted(known)) or 'none'}")


def redis_of(namespace: str, file: Path = GLOBAL) -> str:
    """unix:///PATH of a namespace's redis. Raises QclimbError where the files do not tell one for all our databases."""
    known = {
        one["namespace"]: file.parent / str(one.get("include", ""))
        for one in _of(file, "INCLUDES", list)
        if isinstance(one, dict) and "namespace" in one
    }
    if namespace not in known:
        raise unknown(str(file), namespace, known)
    include = known[namespace].resolve()
    databases, instances = _of(include, "DATABASES", dict), _of(include, "INSTANCES", dict)
    try:
        sockets = {instances[databases[name]["instance"]]["unix_socket_path"] for name in NAMES.values()}
    except (KeyError, TypeError) as error:
        raise QclimbError(f"{include}: {error} is missing, expected instance and socket of each database") from error
    if len(sockets) > 1:
        raise QclimbError(f"{include}: databases are at {', '.join(sorted(sockets))}, expected one redis for all")
    return f"unix://{sockets.pop()}"


def _of(file: Path, name: str, kind: type) -> Any:
    try:
        found = json.loads(file.read_text())[name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise QclimbError(f"{file}: {error!r}, expected SONiC's description of its databases") from error
    if not isinstance(found, kind):
        raise QclimbError(f"{file}: {name} is no {kind.__name__}")
    return found
