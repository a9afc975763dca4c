"""What makes the daemon a service of SONiC's: addresses, certificates, log level, warm restart, namespaces, dump."""

import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate
from qclimb.errors import QclimbError
from qclimb.intent import QueueClass, SwitchIntent

from switchd import addresses, door, logs, warm
from switchd.apply import Switch
from switchd.backend import open_database
from switchd.db import Database, DatabaseLost
from switchd.door import Doors
from switchd.namespaces import redis_of
from switchd.rows import Merge
from switchd.saving import HOST, Saver
from switchd.warm import WAITS, WarmStart
from tests.switchd.stand import APPL, CONFIG, STATE, Pki, Redis, wait_until

WANTED = SwitchIntent(1, "enabled", (QueueClass(0, 47, 7),))


@pytest.fixture
def db(server: Redis) -> Iterator[Database]:
    found = open_database("redis", server.url)
    yield found
    found.close()


def served(port: int, pki: Pki, host: str = "127.0.0.1") -> int:
    """The serial number of the certificate that a new connection is shown; 0 where nobody listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(pki.file("orchestrator", "pem"), pki.file("orchestrator", "key"))
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((host, port), timeout=60) as plain, context.wrap_socket(plain) as found:
            certificate = found.getpeercert(binary_form=True) or b""
    except ConnectionRefusedError:
        return 0
    return load_der_x509_certificate(certificate).serial_number


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def test_certificates_are_read_anew_when_their_files_change(db: Database, pki: Pki, tmp_path: Path) -> None:
    ca, port = trustme.CA(), free_port()
    files = [tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem")]

    def written() -> int:
        cert = ca.issue_cert("127.0.0.1")
        files[0].write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
        files[1].write_bytes(cert.private_key_pem.bytes())
        return load_pem_x509_certificate(cert.cert_chain_pems[0].bytes()).serial_number

    files[2].write_bytes(Path(pki.file("ca", "pem")).read_bytes())
    first = written()
    switch = Switch(db)
    doors = Doors(switch, [f"127.0.0.1:{port}"], None, files)
    doors.open()
    try:
        assert served(port, pki) == first
        second = written()
        assert served(port, pki) == second != first
        files[1].write_text("no key")
        assert served(port, pki) == second, "bad files are not taken"
        doors.beat()
        assert "certificates changed and can't be taken" in switch.board.door
        third = written()
        assert served(port, pki) == third
        doors.beat()
        assert not switch.board.door
    finally:
        doors.close()


def test_a_port_alone_is_served_on_management_addresses_as_they_come_and_go(
    db: Database, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, found = free_port(), ["127.0.0.1"]
    monkeypatch.setattr(door, "management", lambda _: list(found))
    files = [Path(pki.file(*one)) for one in (("switch", "pem"), ("switch", "key"), ("ca", "pem"))]
    doors = Doors(Switch(db), [str(port)], None, files)
    doors.open()
    try:
        assert served(port, pki) and not served(port, pki, "127.0.0.2")
        found.append("127.0.0.2")
        doors.beat()
        assert served(port, pki) and served(port, pki, "127.0.0.2")
        found.pop()
        doors.beat()
        assert served(port, pki) and not served(port, pki, "127.0.0.2")
    finally:
        doors.close()


def test_management_addresses_are_those_of_config_db_and_loopback(
    db: Database, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MANAGEMENT", "nosuchif0")
    assert addresses.management(db) == ["127.0.0.1"]
    for key in ("eth0|198.18.0.11/24", "eth0|2001:db8::1/64", "eth0|x", "eth0"):
        server.db(CONFIG).hset(f"MGMT_INTERFACE|{key}", "NULL", "NULL")
    assert addresses.management(db) == ["127.0.0.1", "198.18.0.11", "[2001:db8::1]"]
    monkeypatch.setattr(addresses, "MANAGEMENT", "lo")
    server.drop("MGMT_INTERFACE")
    assert addresses.management(db) == ["127.0.0.1"], "what DHCP gave"


def test_the_log_level_is_that_of_the_row(db: Database, server: Redis) -> None:
    root = logging.getLogger()
    before, level = root.level, logs.Level("warning")
    try:
        for word, expected in (("DEBUG", logging.DEBUG), ("NOTICE", logging.INFO), ("nonsense", logging.WARNING)):
            server.db(CONFIG).hset("LOGGER|qclimb-switchd", "LOGLEVEL", word)
            level.follow(db)
            assert root.level == expected
    finally:
        root.setLevel(before)


def test_log_lines_go_to_syslog_where_sonic_is(tmp_path: Path) -> None:
    package = tmp_path / "sonic_py_common"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "syslogger.py").write_text(  # SONiC's, as far as we use it: its logger has one handler, to /dev/log
        "import logging, socket\nfrom logging.handlers import SysLogHandler\n"
        "class SysLogger:\n    def __init__(self, name):\n        self.logger = logging.getLogger(name)\n"
        f"        self.logger.addHandler(SysLogHandler({str(tmp_path / 'log')!r}, socktype=socket.SOCK_DGRAM))\n"
    )
    code = (
        "from switchd import logs; import logging; logs.configure('info'); logging.getLogger('switchd').info('x=%d', 1)"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "log"))
        listener.settimeout(120)
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
        assert done.returncode == 0 and not done.stderr
        line = listener.recv(1000).decode()
    lost = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert lost.returncode == 0 and lost.stderr.count(b"\n") == 1, "nobody listens: the line goes to stderr"
    assert lost.stderr.endswith(b" INFO switchd x=1\n")
    assert line.startswith("<14>qclimb-switchd[") and line.rstrip("\0").endswith("]: INFO switchd x=1")


def test_a_cold_start_is_told_as_one(db: Database, server: Redis) -> None:
    WarmStart(db, "qclimb").follow(Switch(db))
    row = server.db(STATE).hgetall("WARM_RESTART_TABLE|qclimb-switchd")
    assert row == {"restore_count": "0", "state": "disabled"}


@pytest.fixture
def warm_start(server: Redis) -> None:
    """What a warm reboot leaves in STATE_DB (scripts/fast-reboot of sonic-utilities): no component has a state."""
    server.load(WANTED.to_config_db())
    state = server.db(STATE)
    state.hset("WARM_RESTART_ENABLE_TABLE|system", "enable", "true")
    state.hset("WARM_RESTART_TABLE|qclimb-switchd", "restore_count", "3")
    state.hset("WARM_RESTART_TABLE|orchagent", "restore_count", "3")


@pytest.mark.parametrize("ends", ["reconciled", "never", "disabled"])
@pytest.mark.usefixtures("warm_start")
def test_after_a_warm_restart_nothing_is_written_before_orchagent_reconciled(
    db: Database, server: Redis, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    state = server.db(STATE)
    switch, start = Switch(db, quiet_s=0.05), WarmStart(db, "qclimb")

    def passes() -> dict[str, str]:
        start.follow(switch)
        switch.follow()
        switch.look()
        return state.hgetall("WARM_RESTART_TABLE|qclimb-switchd")

    for its_state in ("", "initialized", "restored"):  # it begins after us
        if its_state:
            state.hset("WARM_RESTART_TABLE|orchagent", "state", its_state)
        assert passes() == {"restore_count": "4", "state": "initialized"}
        assert WAITS in switch.snapshot.status.last_error
        with pytest.raises(DatabaseLost, match=f"{WAITS}; nothing was written"):
            switch.edit(lambda _: WANTED)
        assert not server.rows("QUEUE")["QUEUE"]
    if ends == "never":
        monkeypatch.setattr(warm, "LONGEST_S", 0.0)
    elif ends == "disabled":  # by the finalizer, or by hand
        state.hset("WARM_RESTART_ENABLE_TABLE|system", "enable", "false")
    else:
        state.hset("WARM_RESTART_TABLE|orchagent", "state", "reconciled")
    wait_until(lambda: passes()["state"] == "reconciled" and server.rows("QUEUE")["QUEUE"], "it goes on, and says so")


@pytest.mark.usefixtures("warm_start")
def test_redirects_and_overdue_commits_wait_for_orchagent_too(db: Database, server: Redis) -> None:
    switch, start = Switch(db, quiet_s=0.0), WarmStart(db, "qclimb")
    server.db(CONFIG).hset("QCLIMB_COMMIT|pending", "id", "no commit at all, to be dropped")
    stray = "ACL_RULE_TABLE:QCLIMB_V4:C9"
    server.db(APPL).hset(stray, mapping={"PRIORITY": "9", "DSCP": "9", "REDIRECT_ACTION": "Ethernet0"})

    def passes() -> bool:
        start.follow(switch)
        switch.follow()
        switch.look()
        is_told = server.db(APPL).sismember("ACL_RULE_TABLE_DEL_SET", "QCLIMB_V4:C9")
        return bool(is_told) and not server.db(CONFIG).exists("QCLIMB_COMMIT|pending")

    for _ in range(3):
        passes()
        assert server.db(CONFIG).exists("QCLIMB_COMMIT|pending")
        assert not server.db(APPL).exists("ACL_RULE_TABLE_DEL_SET")
    server.db(STATE).hset("WARM_RESTART_TABLE|orchagent", "state", "reconciled")
    wait_until(passes, "both are done")


@pytest.mark.parametrize("module", ["system", "swss", "qclimb"])
def test_a_daemon_that_runs_waits_for_an_orchagent_that_restarts_warm(db: Database, server: Redis, module: str) -> None:
    """A warm restart of swss alone stops no service that depends on it."""
    state, switch, start = server.db(STATE), Switch(db), WarmStart(db, "qclimb")
    state.hset("WARM_RESTART_TABLE|orchagent", "state", "reconciled")  # after the last one
    start.follow(switch)
    assert not switch.quiet.stopped
    state.hset(f"WARM_RESTART_ENABLE_TABLE|{module}", "enable", "true")
    state.hset("WARM_RESTART_TABLE|orchagent", "state", "initialized")
    start.follow(switch)
    assert switch.quiet.stopped == WAITS
    state.hset("WARM_RESTART_TABLE|orchagent", "state", "reconciled")
    start.follow(switch)
    assert not switch.quiet.stopped


def test_a_state_of_long_ago_stops_nothing_in_a_cold_start(db: Database, server: Redis) -> None:
    server.db(STATE).hset("WARM_RESTART_TABLE|orchagent", "state", "restored")
    switch = Switch(db)
    WarmStart(db, "qclimb").follow(switch)
    assert not switch.quiet.stopped


DATABASES = {
    name: {"id": number, "separator": "|", "instance": "redis"}
    for number, name in enumerate(("APPL_DB", "ASIC_DB", "COUNTERS_DB", "LOGLEVEL_DB", "CONFIG_DB", "X", "STATE_DB"))
}


def test_the_redis_of_an_asic_is_what_sonics_files_tell(tmp_path: Path) -> None:
    file, one = (
        tmp_path / "sonic-db" / "database_global.json",
        tmp_path / "redis1" / "sonic-db" / "database_config.json",
    )
    for each in (file, one):
        each.parent.mkdir(parents=True)
    include = "../redis1/sonic-db/database_config.json"
    known = {"INCLUDES": [{"include": "database_config.json"}, {"namespace": "asic1", "include": include}]}
    file.write_text(json.dumps(known))
    socket_path = "/var/run/redis1/redis.sock"
    config: dict[str, Any] = {"INSTANCES": {"redis": {"unix_socket_path": socket_path}}, "DATABASES": DATABASES}
    one.write_text(json.dumps(config))
    assert redis_of("asic1", file) == f"unix://{socket_path}"
    with pytest.raises(QclimbError, match="has no namespace 'asic7', expected one of asic1"):
        redis_of("asic7", file)
    config["INSTANCES"]["other"] = {"unix_socket_path": "/elsewhere"}
    config["DATABASES"] = {**DATABASES, "STATE_DB": {"instance": "other"}}
    one.write_text(json.dumps(config))
    with pytest.raises(QclimbError, match="expected one redis for all"):
        redis_of("asic1", file)
    one.write_text("{")
    with pytest.raises(QclimbError, match="expected SONiC's description"):
        redis_of("asic1", file)
    with pytest.raises(QclimbError, match="expected SONiC's description"):
        redis_of("asic1", tmp_path / "none.json")


def test_a_dump_has_what_is_read_and_told_and_no_clients(db: Database, server: Redis) -> None:
    switch = Switch(db)
    switch.edit(lambda _: WANTED)
    db.write_state([Merge("WARM_RESTART_TABLE", "orchagent", {"state": "reconciled"})])
    argv = [sys.executable, "-m", "switchd.dump", "--backend", "redis", "--redis"]
    done = subprocess.run([*argv, server.url], capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)["switch"]
    assert found["CONFIG_DB"]["QCLIMB_CLASS"]["0"]["queue"] == "7"
    assert found["STATE_DB"]["QCLIMB_STATUS"]["global"]["desired_generation"] == "1"
    assert "orchestrator" not in done.stdout
    server.kill()
    gone = subprocess.run([*argv, server.url], capture_output=True, text=True, timeout=300)
    assert gone.returncode == 2 and "redis" in json.loads(gone.stdout)["switch"]["error"]
    server.start()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    """A D-Bus on which whoever likes may own SONiC's name."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("needs dbus-daemon")
    pytest.importorskip("jeepney")
    address = f"unix:path={tmp_path}/bus"
    argv = ["dbus-daemon", "--session", "--nofork", "--address", address]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "bus").exists, "the bus is there")
        yield address
    finally:
        process.terminate()
        process.wait(60)


class Host:
    """sonic-host-services, as far as `config save` goes: answers each call with a status, and counts them."""

    def __init__(self, address: str) -> None:
        import jeepney
        from jeepney.io.blocking import open_dbus_connection

        self._jeepney = jeepney
        self.calls: list[tuple[str, Any]] = []
        self.answer = (0, "")
        self._bus = open_dbus_connection(address)
        self._bus.send_and_get_reply(jeepney.message_bus.RequestName(HOST))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            asked = self._bus.receive()
            if asked.header.message_type is self._jeepney.MessageType.method_call:
                self.calls.append((asked.header.fields[self._jeepney.HeaderFields.member], asked.body))
                self._bus.send(self._jeepney.new_method_return(asked, "is", self.answer))


def test_a_change_by_our_door_is_saved_where_sonic_saves_its_own(
    db: Database, server: Redis, bus: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host, switch = Host(bus), Switch(db)
    saver = Saver(switch, bus)

    def edited() -> None:
        switch.edit(lambda before: replace(before or WANTED, generation=(before or WANTED).generation + 1))

    edited()
    saver.beat()
    assert not saver.is_busy and not host.calls, "GNMI|gnmi does not ask for it"
    server.db(CONFIG).hset("GNMI|gnmi", "save_on_set", "true")
    edited()
    server.db(CONFIG).hset("QCLIMB_COMMIT|pending", "id", "x")
    saver.beat()
    assert not saver.is_busy, "it may yet be taken back"
    server.db(CONFIG).delete("QCLIMB_COMMIT|pending")
    saver.beat()
    wait_until(lambda: not saver.is_busy, "it is saved")
    assert host.calls == [("save", ("",))]
    saver.beat()
    assert not saver.is_busy and len(host.calls) == 1, "once"
    host.answer = (1, "Error: disk full")
    edited()
    saver.beat()
    wait_until(lambda: not saver.is_busy, "it is tried")
    assert "disk full" in caplog.text


def test_a_host_without_the_service_is_one_line_in_the_log(
    db: Database, server: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.db(CONFIG).hset("GNMI|gnmi", "save_on_set", "true")
    switch = Switch(db)
    saver = Saver(switch, f"unix:path={tmp_path}/none")
    switch.edit(lambda _: WANTED)
    saver.beat()
    wait_until(lambda: not saver.is_busy, "it is tried")
    assert "save error=" in caplog.text
