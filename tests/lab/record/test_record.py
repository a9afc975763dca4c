"""`qclimb lab record`: the commands' words, the programs of our own, and a short recording as it is made."""

import os
import shutil
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from qclimb import recording
from qclimb.hostfile import encode_records
from qclimb.lengthfile import Proposal, decode_lengths, encode_proposal
from qclimb.lengths import LengthRule, Service, Use
from qclimb.record import FlowRecord, RecordBatch
from threadpoolctl import threadpool_limits

from lab.cli.record import record
from lab.record import spark, web
from lab.record.programs import backup, parameter_server
from lab.record.site import Collector
from lab.workload.programs import WorkloadError

ROOT = Path(__file__).parents[3]


def said(*words):
    return CliRunner().invoke(record, [str(word) for word in words])


@pytest.mark.parametrize("command", ["web", "bulk", "kv", "training", "spark", "show", "plot"])
def test_each_command_has_an_example(command):
    assert "Example:" in said(command, "--help").output


def test_what_is_no_recording_is_one_sentence_and_exit_2(tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    for command in (["show", tmp_path / "x.parquet"], ["plot", tmp_path / "x.parquet", "-o", tmp_path / "p.png"]):
        found = said(*command)
        assert found.exit_code == 2
        assert "expected a Parquet file" in found.output


def test_a_python_without_spark_is_told_what_to_install(tmp_path):
    empty = tmp_path / "python"
    empty.write_text("#!/bin/sh\nexit 1\n")
    empty.chmod(0o755)
    with pytest.raises(WorkloadError, match=r"pip install 'qclimb\[spark\]'"):
        spark.spark_home(str(empty))


def test_a_web_site_is_the_same_for_the_same_seed(tmp_path):
    pages = web.make_site(tmp_path / "a", 3)
    assert pages == web.make_site(tmp_path / "b", 3) != web.make_site(tmp_path / "c", 4)
    for name in {path for page in pages for path in page}:
        assert (tmp_path / "a" / name[1:]).read_bytes() == (tmp_path / "b" / name[1:]).read_bytes()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_no_proxy_stands_between_a_backup_and_its_server(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    backup.upload([1], f"127.0.0.1:{listener.getsockname()[1]}", "h1", tmp_path)
    listener.close()


def test_every_second_backup_is_whole_and_the_others_are_small():
    whole = backup.volumes([1, 0])
    assert whole == backup.volumes([1, 0]) != backup.volumes([2, 0])
    assert max(whole) > 10_000_000, "there are large flows"
    random = np.random.default_rng(0)
    shares = [np.array(backup.packed(whole, run, random)) / whole for run in range(4)]
    assert all((share > 0.9).all() for share in shares[::2])
    assert all((share < 0.06).all() for share in shares[1::2])


@pytest.mark.parametrize("model", ["perceptron", "embedding"])
def test_a_parameter_server_learns(model):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    server = parameter_server.Server(model, 1)
    threading.Thread(target=server.serve, args=(address,), daemon=True).start()
    import argparse

    options = argparse.Namespace(address=address, seed=1, model=model, worker=0)
    worker = None
    while worker is None:
        try:
            worker = parameter_server.Worker(options)
        except ConnectionRefusedError:
            time.sleep(0.01)
    step = worker.perceptron if model == "perceptron" else worker.embedding
    with threadpool_limits(1):  # threads of BLAS's own would wait for each other where other programs run
        losses = [step(n) for n in range(220 if model == "perceptron" else 400)]
    assert np.mean(losses[-30:]) < np.mean(losses[:30]) - 0.02
    worker.connection.close()


def test_the_shipped_recordings_and_their_columns_are_described():
    folder = ROOT / "lab" / "recordings"
    text = (folder / "README.md").read_text(encoding="utf-8")
    shipped = sorted(folder.glob("*.parquet"))
    assert [path.stem for path in shipped] == ["bulk", "kv", "spark", "training", "web"]
    for name, (kind, meaning) in recording.COLUMNS.items():
        assert f"| `{name}` | {kind} | {meaning} |" in text
    for path in shipped:
        found = recording.read(path)
        assert found.refused == {}
        assert f"| {path.stem} | {found.flows:,} |" in text


@pytest.mark.fabric
def test_a_short_recording_holds_the_flows_of_both_directions(tmp_path):
    import shutil

    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    missing = [tool for tool in ("ip", "tc", "ethtool", "memcached") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}")
    output = tmp_path / "kv.parquet"
    for seconds in (2, 20, 100):  # its clients ask as fast as this machine lets them
        made = said("kv", "--prefix", f"t{os.getpid()}r", "-o", output, "--seed", 1, "--seconds", seconds)
        assert made.exit_code == 0, made.output
        found = recording.read(output)
        if found.flows > 200:
            break
    assert found.flows > 200
    assert found.refused == {}
    assert "memcached" in set(found.texts["process"]) and len(set(found.texts["process"])) == 2
    assert set(found.numbers["role"].tolist()) == {0, 1}
    answers = found.numbers["role"] == 1
    assert set(found.numbers["local_port"][answers].tolist()) == {11211}
    assert (found.numbers["footprint_bytes"] <= found.numbers["size_bytes"]).all()
    assert (found.numbers["size_bytes"] < 1 << 20).all()


def test_a_collector_keeps_every_flow_and_each_host_learns_for_itself(tmp_path):
    places = {host: tmp_path / host for host in ("h1", "h2")}
    for place in places.values():
        place.mkdir()
    collector = Collector(places)
    rule, service = LengthRule(0, 4, True, 4), Service("store", 1, 9000)
    batch = encode_records(RecordBatch((FlowRecord(start_ns=1, last_write_ns=1, size_bytes=9),) * 16))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(places["h1"] / "records"))
        for number in range(40):
            sender.send(batch)
            if number < 5:
                sender.send(encode_proposal(Proposal(service, 90_000 + number, 100, (rule,))))
    end = time.monotonic() + 60
    while not (places["h1"] / "lengths").exists() or not decode_lengths((places["h1"] / "lengths").read_bytes()):
        assert time.monotonic() < end
        time.sleep(0.01)
    records, lost = collector.end()
    assert len(records) == 640
    assert set(lost.values()) == {0}
    (known,) = decode_lengths((places["h1"] / "lengths").read_bytes())
    assert (known.service, known.rule, known.use) == (service, rule, Use.TRIAL)
    assert decode_lengths((places["h2"] / "lengths").read_bytes()) == []
