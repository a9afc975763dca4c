"""The control plane of a fabric: redis, switchd and vasic on each switch, the orchestrator, a hostd on each host.

Only the processes' commands and the REST of the orchestrator are used; nothing is imported from them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from qclimb.pki import Authority
from qclimb.rest import build_path

from lab.control.platform_rows import rows_of
from lab.control.rest import NetnsRest, client
from lab.control.vasic.rows import CONFIG_DB, STATE_DB, Fields, connect, fingerprint, read
from lab.fabric.daemons import Daemon, command, start, wait_for
from lab.fabric.topology import FabricError

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric

GNMI_PORT, REST_PORT = 9339, 8443
ORCHESTRATOR_CN, OPERATOR_CN = "qclimb-orchestrator", "qclimb-operator"
GNMI_ROLES = {ORCHESTRATOR_CN: "gnmi_config_db_readwrite", OPERATOR_CN: "gnmi_config_db_readonly"}


def redis_socket(fabric: Fabric, switch: str) -> Path:
    """The redis of a switch."""
    return fabric.directory / "switches" / switch / "redis.sock"


AS_ROLLED_OUT = ("--keep-bounds", "--on-drift", "flag", "--drift-every-s", "3600")
"""Experiments mean the bounds that they roll out, also bad ones; and a forest that is grown anew beside a pass takes a
core of the machine for some 20 s, from QCLIMB's passes alone."""


def start_control(fabric: Fabric, progress: Callable[[str], None], serve: Sequence[str] = AS_ROLLED_OUT) -> None:
    """Brings the control plane of a fabric up, as far as every daemon serves and every device is registered.

    `serve`: further options of `qclimb-orchestrator serve`.

    Raises:
        FabricError: a daemon ended or did not serve in time; carries the end of its log.
    """
    certificates = Authority(fabric.directory / "pki")
    progress(f"redis and platform rows on {len(fabric.topology.switches)} switches")
    redis_servers = [_redis(fabric, switch) for switch in fabric.topology.switches]
    for switch in fabric.topology.switches:
        wait_for(f"redis of {switch} answers", lambda s=switch: _answers(fabric, s), redis_servers)  # type: ignore[misc]
        _write_rows(fabric, switch)
    progress("virtual ASICs and switchd, mTLS gNMI")
    asics = [_vasic(fabric, switch) for switch in fabric.topology.switches]
    switchds = [_switchd(fabric, switch, certificates) for switch in fabric.topology.switches]
    orchestrator = _orchestrator(fabric, certificates, serve)
    wait_for("every ASIC follows its rows", lambda: asics_follow(fabric), asics)
    for switch in fabric.topology.switches:
        address = (fabric.topology.nodes[switch].mgmt_address, GNMI_PORT)
        wait_for(f"gNMI of {switch} listens", lambda a=address: _listens(fabric, a), switchds)  # type: ignore[misc]
    progress("routing")
    routing = start(fabric, "mgmt", "routing", [sys.executable, "-m", "lab.control.routing", "--fabric", fabric.prefix])
    wait_for("every ASIC has its routes", lambda: asics_route(fabric), [routing, *asics])
    progress("orchestrator")
    _await_token(fabric, orchestrator)
    with client(fabric) as rest:
        wait_for("the orchestrator's REST answers", lambda: _serves(rest), [orchestrator])
        tokens = _register(fabric, rest)
        progress(f"hostd on {len(fabric.hosts)} hosts")
        hostds = [_hostd(fabric, host, token) for host, token in tokens.items()]
        wait_for("every hostd has reached the orchestrator", lambda: _hosts_seen(fabric), hostds)
    fabric.record.save()


def _redis(fabric: Fabric, switch: str) -> Daemon:
    path = redis_socket(fabric, switch)
    path.parent.mkdir(parents=True, exist_ok=True)
    argv = [
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--unixsocketperm",
        "700",
        "--dir",
        str(path.parent),
    ]
    argv += ["--save", "", "--appendonly", "no", "--notify-keyspace-events", "AKE", "--databases", "16", "--hz", "2"]
    return start(fabric, switch, f"redis-{switch}", argv)


def _answers(fabric: Fabric, switch: str) -> bool:
    import redis

    try:
        return bool(connect(str(redis_socket(fabric, switch)), CONFIG_DB).ping())
    except redis.RedisError:
        return False


def _write_rows(fabric: Fabric, switch: str) -> None:
    database = connect(str(redis_socket(fabric, switch)), CONFIG_DB)
    pipe = database.pipeline(transaction=True)
    for key, row in rows_of(fabric.topology, switch, GNMI_ROLES).items():
        fields: Fields = dict(row.items())
        pipe.hset(key, mapping=fields)
    pipe.set("CONFIG_DB_INITIALIZED", "1")
    pipe.execute()


def _vasic(fabric: Fabric, switch: str) -> Daemon:
    argv = [sys.executable, "-m", "lab.control.vasic", "--redis", str(redis_socket(fabric, switch))]
    argv += ["--shaper", fabric.record.shaper]
    if fabric.record.shared_buffer:
        argv += ["--bpf", str(fabric.directory / "bpf")]
    return start(fabric, switch, f"vasic-{switch}", argv)


def _switchd(fabric: Fabric, switch: str, certificates: Authority) -> Daemon:
    address = fabric.topology.nodes[switch].mgmt_address
    pair = certificates.server(switch, address)
    argv = [command("qclimb-switchd"), "--redis", f"unix://{redis_socket(fabric, switch)}"]
    argv += ["--listen", f"{address}:{GNMI_PORT}", "--tls-ca", str(certificates.certificate)]
    argv += ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key), "--backend", "redis"]
    argv += ["--quiet-s", "0"]  # nobody patches a lab's CONFIG_DB row by row
    return start(fabric, switch, f"switchd-{switch}", argv)


def _orchestrator(fabric: Fabric, certificates: Authority, more: Sequence[str]) -> Daemon:
    address = fabric.topology.nodes["mgmt"].mgmt_address
    directory = fabric.directory / "orchestrator"
    directory.mkdir(mode=0o700)
    server = certificates.server("orchestrator", address)
    to_switches = certificates.client(ORCHESTRATOR_CN)
    operator = certificates.client(OPERATOR_CN)
    fabric.record.control = {
        "rest": f"https://{address}:{REST_PORT}",
        "ca": str(certificates.certificate),
        "token_file": str(directory / "admin.token"),
        "operator_cert": str(operator.certificate),
        "operator_key": str(operator.key),
    }
    argv = [command("qclimb-orchestrator"), "serve", "--listen", f"{address}:{REST_PORT}"]
    argv += [
        "--database",
        f"sqlite:///{directory / 'store.db'}",
        "--bootstrap-token-file",
        str(directory / "admin.token"),
    ]
    argv += ["--tls-cert", str(server.certificate), "--tls-key", str(server.key)]
    argv += ["--switch-cert", str(to_switches.certificate), "--switch-key", str(to_switches.key)]
    argv += ["--switch-ca", str(certificates.certificate), *more]
    return start(fabric, "mgmt", "orchestrator", argv)


def _hostd(fabric: Fabric, host: str, token: str) -> Daemon:
    file = fabric.directory / "hosts" / f"{host}.token"
    run_directory = fabric.run_directory(host)
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as out:
        out.write(token)
    argv = [command("qclimb-hostd"), "--name", host, "--orchestrator", fabric.record.control["rest"]]
    argv += ["--ca", fabric.record.control["ca"], "--token-file", str(file), "--run-dir", str(run_directory)]
    if group := fabric.record.cgroups.get(host):
        argv += ["--kernel", group]
    return start(fabric, host, f"hostd-{host}", [*argv, "--poll-interval-s", "1"])


def asics_follow(fabric: Fabric) -> bool:
    """Whether each virtual ASIC has applied the rows that its switch's CONFIG_DB holds now."""
    for switch in fabric.topology.switches:
        path = str(redis_socket(fabric, switch))
        wanted = fingerprint(read(connect(path, CONFIG_DB)))
        if connect(path, STATE_DB).hget("VASIC|global", "rows_hash") != wanted:
            return False
    return True


def asics_route(fabric: Fabric) -> bool:
    """Whether each virtual ASIC has a route to every rack."""
    racks = len(fabric.topology.leaf_names)
    for switch in fabric.topology.switches:
        told = connect(str(redis_socket(fabric, switch)), STATE_DB).hget("VASIC|global", "routes")
        if int(told or 0) < racks:
            return False
    return True


def _listens(fabric: Fabric, address: tuple[str, int]) -> bool:
    with fabric.entered("mgmt"), suppress(OSError):
        socket.create_connection(address, timeout=2).close()
        return True
    return False


def _await_token(fabric: Fabric, orchestrator: Daemon) -> None:
    path = Path(fabric.record.control["token_file"])
    wait_for("the orchestrator wrote its first token", lambda: path.exists() and bool(path.read_text()), [orchestrator])


def _serves(rest: NetnsRest) -> bool:
    try:
        rest.get("/v1/state")
    except httpx.TransportError:
        return False
    return True


def _register(fabric: Fabric, rest: NetnsRest) -> dict[str, str]:
    """Switches and hosts at the orchestrator; answers each host's token."""
    for switch in fabric.topology.switches:
        node = fabric.topology.nodes[switch]
        rest.put(build_path("switches", switch), {"address": f"{node.mgmt_address}:{GNMI_PORT}", "role": node.role})
    tokens = {}
    for host in fabric.hosts:
        rest.put(build_path("hosts", host), {})
        tokens[host] = rest.post("/v1/tokens", {"role": "host", "name": host})["token"]
    return tokens


def _hosts_seen(fabric: Fabric) -> bool:
    for host in fabric.hosts:
        directory = fabric.run_directory(host)
        try:
            status = json.loads((directory / "status.json").read_text())
        except (OSError, ValueError):
            return False
        if not (directory / "records").exists():
            return False
        if host in fabric.record.cgroups:
            if status["kernel"].startswith("off"):
                raise FabricError(f"the kernel mode of host {host} is {status['kernel']}")
            if not status["kernel"]:
                return False
    return True
