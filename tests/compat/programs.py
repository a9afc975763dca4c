"""The programs, a row each, in the order in which they run: the quick ones first."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.compat.bed import CompatError
from tests.compat.bodies import body, digest, of, same, text_of
from tests.compat.cpython import CPYTHON
from tests.compat.outcome import FAILED, PASSED, verdict
from tests.compat.program import Command, Course, Done, Downloads, Program, Serve, Step, Write

WEB = "http://127.0.0.1:$port"
LOAD = "$python $loads"
Steps = Iterator[Step]
PROGRAMS: list[Program] = []


def program(name: str, needs: Mapping[str, str], rate_of: str = "") -> Callable[[Callable[[], Steps]], None]:
    """A row of PROGRAMS by its steps, whose docstring says what they are."""
    return lambda steps: PROGRAMS.append(Program(name, (steps.__doc__ or "").rstrip("."), needs, steps, rate_of))


# ---- What a row does not say: the words of programs, and what some need.


def words_in_json(course: Course, done: Done) -> str:
    """Our own loads."""
    told = json.loads(done.stdout)
    course.rate += told["rate"]
    for name, word in told["results"].items():
        course.tell(name, word)
    return PASSED


def words_of_ab(course: Course, done: Done) -> str:
    said = done.stdout.decode()
    told = {key: value.split() for key, _, value in (line.partition(":") for line in said.splitlines()) if value}
    course.rate += float(told["Requests per second"][0])
    good = told.get("Failed requests") == ["0"] and told.get("Complete requests") == ["3000"]
    return verdict(good and "Non-2xx responses" not in told, said[-200:])


def words_of_wrk(size: int, course: Course, done: Done) -> str:
    said = done.stdout.decode()
    found = re.search(r"Requests/sec:\s*([\d.]+)", said)
    course.rate += float(found[1]) * size if found else 0
    errors = re.findall(r"^.*(?:Socket errors|Non-2xx).*$", said, re.MULTILINE)
    return verdict(bool(found) and not errors, " ".join(errors) or said)


def words_of_iperf3(is_rated: bool, course: Course, done: Done) -> str:
    """A way has passed when iperf3 says so and bytes arrived."""
    told = json.loads(done.stdout)
    end = told.get("end", {})
    summary = end.get("sum_received") or end.get("sum") or {}
    course.rate += summary.get("bits_per_second", 0) if is_rated else 0
    holds = done.returncode == 0 and "error" not in told and summary.get("bytes", 0) > 0
    return verdict(holds, told.get("error", done.stderr.decode()))


def words_of_redis_benchmark(how: str, course: Course, done: Done) -> str:
    told = (done.stdout + done.stderr).decode()
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    for row in rows:
        holds = "rror" not in told and float(row["rps"]) > 0
        course.tell(f"benchmark {how}: {row['test']}", verdict(holds, told[-200:]))
    course.rate += sum(float(row["rps"]) for row in rows if row["test"] == "GET")
    return PASSED


def words_of_pgbench(protocol: str, course: Course, done: Done) -> str:
    told = dict(re.findall(r"^([^:=\n]*\w)\s*[:=]\s*(.*)$", done.stdout.decode(), re.MULTILINE))
    for name in ("number of transactions actually processed", "number of failed transactions"):
        course.tell(f"pgbench {protocol}: {name}", told[name])
    course.rate += float(told["tps"].split()[0])
    return PASSED


def text(course: Course, done: Done) -> str:
    """What it wrote must be the same in every run."""
    return done.stdout.decode().strip()


def last_line(course: Course, done: Done) -> str:
    return text(course, done).splitlines()[-1]


def redis_pipe() -> bytes:
    return b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\np%06d\r\n$4\r\n%04d\r\n" % (n, n % 10_000) for n in range(50_000))


def after_head(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def said(stdin: str) -> Callable[[], bytes]:
    return stdin.encode


def until(command: str, holds: Callable[[Done], bool], course: Course, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds(course.run(command, statuses=None)):
        if time.monotonic() > end:
            raise CompatError(f"{command.split()[0]} has not said what was expected in {seconds:g} s")
        time.sleep(0.05)


def replicate(course: Course) -> None:
    """A replica's full synchronisation, and what comes after it."""
    Serve(REDIS.replace("$port", "$replica_port") + " --replicaof '127.0.0.1 $port'", port="replica_port")(course)
    ours, theirs = "redis-cli -p $port", "redis-cli -p $replica_port"
    until(f"{theirs} info replication", lambda done: b"master_link_status:up" in done.stdout, course)
    course.run(f"{ours} set last word")
    waited = text(course, course.run(f"{ours} wait 1 20000"))
    a, b = (text(course, course.run(f"{cli} debug digest")) for cli in (ours, theirs))
    good = a == b and waited == "1"
    course.tell("a replica has the same data", PASSED if good else f"{FAILED}: {a} against {b}, {waited} waited")


def upload_by_tls(course: Course) -> None:
    """To a server that ends with the session. No letter of it (B, K, Q, R, k) is a command of s_client."""
    wanted = text_of(1_500_000)()
    landed = course.bed.folder / "landed"
    with landed.open("wb") as file:
        server = course.bed.serve(
            *course.words(f"{TLS_SERVER.replace('$port', '$up_port')} -naccept 1"),
            port=int(course.names["up_port"]),
            stdout=file,
            stdin=subprocess.PIPE,  # held open: s_server ends the session when its own input ends
        )
        course.run(f"{TLS_CLIENT.replace('$port', '$up_port')} -no_ign_eof", stdin=wanted, statuses=(0, 1))
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            raise CompatError("s_server did not end after the client's end of session") from None
    course.tell(f"{len(wanted)} bytes up", same(landed.read_bytes(), wanted))


def data_folder(course: Course) -> None:
    """PostgreSQL refuses to run as root."""
    data = course.bed.folder / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, "postgres")


def copy_out_and_in(course: Course) -> None:
    out = course.run(psql("-c", "copy (select * from out order by n) to stdout")).stdout
    course.tell("a table out", f"{len(out)} bytes, sha256 {digest(out)}")
    course.run(psql("-q -c", "copy back from stdin"), stdin=out)
    again = course.run(psql("-c", "copy (select * from back order by n) to stdout")).stdout
    course.tell("and in again", verdict(again == out, f"{len(again)} bytes"))


# ---- Commands and files that several rows share.

CERTIFICATE = Command(
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"
    " -addext subjectAltName=IP:127.0.0.1 -keyout $folder/key.pem -out $folder/certificate.pem"
)
TLS_SERVER = "openssl s_server -accept $port -cert $folder/certificate.pem -key $folder/key.pem -quiet"
TLS_CLIENT = "openssl s_client -connect 127.0.0.1:$port -CAfile $folder/certificate.pem -quiet"
REDIS = (
    "redis-server --port $port --bind 127.0.0.1 --save '' --dir $folder --dbfilename $port.rdb"
    " --enable-debug-command local --repl-diskless-sync-delay 0"
)
POSTGRES = "/usr/lib/postgresql/*/bin"  # Debian keeps them out of PATH, by version: the newest
AT_POSTGRES = "-h 127.0.0.1 -p $port -U postgres"
SSH_OPTIONS = (
    "-o IdentityFile=$folder/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o IdentitiesOnly=yes -o ConnectTimeout=20 -o User=$me"
)
SSHD = """Port $port
ListenAddress 127.0.0.1
HostKey $folder/host
AuthorizedKeysFile $folder/user.pub
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
Subsystem sftp internal-sftp
"""
NGINX = """daemon off; worker_processes 2; pid $folder/nginx.pid; error_log stderr warn; $nginx_user
events {}
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_timeout 60; keepalive_requests 1000000;
  client_max_body_size 50m; $nginx_temporary
  upstream self { server 127.0.0.1:$port; keepalive 8; }
  server {
    listen 127.0.0.1:$port; listen 127.0.0.1:$tls_port ssl http2;
    ssl_certificate $folder/certificate.pem; ssl_certificate_key $folder/key.pem;
    root $folder/files;
    location /up/ { dav_methods PUT; create_full_put_path on; }
    location /proxy/ { proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location /proxy-up/ { proxy_pass http://self/up/; proxy_request_buffering off; proxy_http_version 1.1; }
  }
}
"""
NGINX_ALONE = """daemon off; master_process off; pid $folder/nginx.pid; error_log stderr warn; events {}
http {
  access_log off; sendfile on; client_max_body_size 50m; $nginx_temporary
  server {
    listen 127.0.0.1:$port; root $folder/files;
    location /up/ { dav_methods PUT; create_full_put_path on; }
  }
}
"""
HAPROXY = """global
  maxpipes 100
defaults
  timeout client 30s
  timeout server 30s
  timeout connect 5s
  option splice-auto
  option splice-request
  option splice-response
listen http
  mode http
  bind 127.0.0.1:$http_port
  server one 127.0.0.1:$port
listen tcp
  mode tcp
  bind 127.0.0.1:$tcp_port
  server one 127.0.0.1:$port
"""


def psql(options: str, query: str) -> str:
    return f'psql {AT_POSTGRES} {options} "{query}" postgres'


# ---- The rows: name, what must be installed, what is done.


@program("curl", {"curl": "curl"}, "bytes/s")
def curl() -> Steps:
    """curl against a small Python server: uploads and downloads, byte by byte."""
    yield Serve(f"{LOAD}/place.py $port")
    for size in (0, 1, 999, 1_000, 1_001, 65_536, 1_000_000, 20_000_000):
        yield Write(f"{size}.body", of(size))
        for how, flag in (("piece", ""), ("chunks", "-H 'Transfer-Encoding: chunked'")):
            if size or not flag:  # curl 7.88 never sends the last chunk of an empty file, and waits
                yield Command(f"curl -fsS {flag} -T $folder/{size}.body {WEB}/{how}-{size}", moves=size)
                name = f"{size} bytes up in {how}, and down"
                yield Command(f"curl -fsS {WEB}/{how}-{size}", name, of(size), moves=size)
    yield Command(f"curl -fsS -T - {WEB}/pipe", "3 MB up from a pipe", stdin=of(3_000_000))
    yield Command(f"curl -fsS {WEB}/pipe", "3 MB down again", of(3_000_000))
    many = Downloads(f"{WEB}/piece-65536", 60, of(65_536))
    yield Command("curl -fsS -Z", "60 at once", downloads=many)
    yield Command("curl -fsS --no-progress-meter", "60 on one connection", downloads=many)
    yield Command(f"curl -fsS --limit-rate 400k {WEB}/piece-1000000", "1 MB to a slow reader", of(1_000_000))


@program("openssl", {"openssl": "openssl"}, "bytes/s")
def openssl() -> Steps:
    """s_client and s_server: files down and up, short sessions."""
    yield CERTIFICATE
    for size in (1_000, 100_000, 10_000_000):
        yield Write(f"{size}.body", of(size))
    yield Serve(f"{TLS_SERVER} -WWW")
    client = partial(Command, statuses=(0, 1), part=after_head)
    for version in ("tls1_3", "tls1_2"):
        for size in (1_000, 100_000, 10_000_000):
            ask = said(f"GET /{size}.body HTTP/1.0\r\n\r\n")
            name = f"{size} bytes down, {version}"
            yield client(f"{TLS_CLIENT} -ign_eof -{version}", name, of(size), stdin=ask, moves=size)
    ask = said("GET /1000.body HTTP/1.0\r\n\r\n")
    yield client(f"{TLS_CLIENT} -ign_eof", "20 short sessions", of(1_000), stdin=ask, times=20)
    yield upload_by_tls


@program(
    "redis", {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "redis-cli": "redis-tools"}, "GET/s"
)
def redis() -> Steps:
    """redis-benchmark plain and pipelined, values to 10 MB, a replica's full synchronisation."""
    yield Serve(REDIS)
    for how, more in (("plain", "-n 4000 -d 1500"), ("pipelined", "-n 10000 -P 16 -d 200")):
        tests = f"redis-benchmark -p $port -c 50 --csv -t set,get,lpush,lrange_100,mset {more}"
        yield Command(tests, judge=partial(words_of_redis_benchmark, how), timeout_s=300)
    for size in (1, 1_000, 1_001, 100_000, 5_000_000):
        name, value = f"a value of {2 * size} bytes", text_of(size)
        yield Command(f"redis-cli -p $port -x set key-{size}", name, said("OK\n"), stdin=value)
        yield Command(f"redis-cli -p $port get key-{size}", name, value, bytes.rstrip)
    yield Command("redis-cli -p $port --pipe", "50,000 commands in one pipe", judge=last_line, stdin=redis_pipe)
    yield replicate
    yield Command("sh -c 'redis-cli -p $port info stats | grep total_error_replies'", "error replies", judge=text)


@program("memcached", {"memcached": "memcached"}, "operations/s")
def memcached() -> Steps:
    """sets, gets and multi-gets of 1 byte to 400 KB, every answer known."""
    yield Serve("memcached -p $port -l 127.0.0.1 -U 0 -t 4 -m 1024 -u nobody")
    yield Command(f"{LOAD}/memcached.py $port 16 1500", judge=words_in_json, timeout_s=300)


@program("nginx", {"nginx": "nginx-light", "wrk": "wrk", "curl": "curl", "openssl": "openssl"}, "bytes/s of wrk")
def nginx() -> Steps:
    """wrk and curl: keep-alive, sendfile to 1 MB, TLS, HTTP/2, proxy, uploads."""
    yield CERTIFICATE
    sizes = (1_000, 100_000, 1_000_000)
    for size in sizes:
        yield Write(f"files/{size}", of(size))
    yield Write("upload", of(20_000_000))
    yield Write("nginx.conf", NGINX)
    yield Serve("nginx -c $folder/nginx.conf")
    for how, flags, place in (
        ("kept", "", WEB),
        ("at once", "-Z", WEB),
        ("TLS", "--http1.1", "https://127.0.0.1:$tls_port"),
        ("HTTP/2, at once", "--http2 -Z", "https://127.0.0.1:$tls_port"),
        ("proxied", "", f"{WEB}/proxy"),
    ):
        for size in sizes:
            command = f"curl -fsS --cacert $folder/certificate.pem {flags}"
            many = Downloads(f"{place}/{size}", 25, of(size))
            yield Command(command, f"{size} bytes, {how}", downloads=many, timeout_s=30)
    for name, place in (("nginx", "up"), ("a proxy", "proxy-up")):
        files = {f"files/up/{place}": of(20_000_000)}
        yield Command(f"curl -fsS -T $folder/upload {WEB}/{place}/{place}", f"20 MB up to {name}", files=files)
    part = lambda: body(1_000_000)[500_000:800_000]  # noqa: E731
    yield Command(f"curl -fsS -r 500000-799999 {WEB}/1000000", "a range of 1 MB", part)
    for size in sizes:
        name, judge = f"wrk, 32 connections, {size} bytes", partial(words_of_wrk, size)
        yield Command(f"wrk -t2 -c32 --timeout 30s -d4s {WEB}/{size}", name, judge=judge)


@program(
    "haproxy",
    {"nginx": "nginx-light", "/usr/sbin/haproxy": "haproxy", "curl": "curl", "ab": "apache2-utils"},
    "requests/s",
)
def haproxy() -> Steps:
    """haproxy before nginx: spliced answers and uploads, as HTTP and as TCP; ab."""
    sizes = (1_000, 60_000, 3_000_000)
    for size in sizes:
        yield Write(f"files/{size}", of(size))
    yield Write("nginx.conf", NGINX_ALONE)
    yield Write("haproxy.cfg", HAPROXY)
    yield Serve("nginx -c $folder/nginx.conf")
    yield Serve("/usr/sbin/haproxy -db -f $folder/haproxy.cfg", "http_port")
    for how, place in (("HTTP", "http://127.0.0.1:$http_port"), ("TCP", "http://127.0.0.1:$tcp_port")):
        for size in sizes:
            many = Downloads(f"{place}/{size}", 10, of(size))
            yield Command("curl -fsS", f"{size} bytes, {how}", downloads=many)
            upload = f"curl -fsS -T $folder/files/{size} {place}/up/{how}-{size}"
            yield Command(upload, f"{size} bytes up, {how}", files={f"files/up/{how}-{size}": of(size)})
        yield Command(f"ab -q -k -n 3000 -c 20 {place}/60000", f"ab, 20 connections, {how}", judge=words_of_ab)


@program("nbd", {"nbdkit": "nbdkit", "nbdcopy": "libnbd-bin"}, "bytes/s")
def nbd() -> Steps:
    """a disk of 20 MB up and down: one request at a time, 64 requests at once, four connections."""
    size = 20_000_000
    yield Write("disk", lambda: bytes(size))
    yield Serve("nbdkit -f -p $port -i 127.0.0.1 file $folder/disk")
    for at, (way, flags) in enumerate(
        (
            ("one request at a time", "--connections=1 --requests=1 --synchronous"),
            ("64 requests at once", "--connections=1 --requests=64"),
            ("four connections", "--connections=4 --requests=16"),
        )
    ):
        held, disk = of(size, at), "nbd://127.0.0.1:$port"
        yield Write("new", held)
        yield Command(f"nbdcopy {flags} --flush $folder/new {disk}", f"up, {way}", files={"disk": held}, moves=size)
        back = f"back-{at}"
        yield Command(f"nbdcopy {flags} {disk} $folder/{back}", f"down, {way}", files={back: held}, moves=size)


@program(
    "ssh",
    {
        "/usr/sbin/sshd": "openssh-server",
        "ssh": "openssh-client",
        "rsync": "rsync",
        "curl": "curl",
        "python3": "python3",
    },
)
def ssh() -> Steps:
    """OpenSSH: a daemon that seals its children, scp, rsync, forwarded ports."""
    yield Command("mkdir -p /run/sshd", statuses=None)  # where Debian's sshd of root shuts its children in
    for name in ("host", "user"):
        yield Command(f"ssh-keygen -q -t ed25519 -N '' -f $folder/{name}")
    big = of(20_000_000)
    yield Write("big", big)
    yield Serve("$python -m http.server -b 127.0.0.1 -d $folder $web_port", "web_port")
    for how, more in (("anew", ""), ("forked", "-r")):  # who serves: a daemon started anew, a fork of what accepted
        port, there, back = f"${how}_port", f"${how}_there_port", f"${how}_back_port"
        yield Write(f"sshd-{how}", SSHD.replace("$port", port))
        yield Serve(f"/usr/sbin/sshd -D -e {more} -f $folder/sshd-{how}", port[1:])
        shell, copy = f"ssh {SSH_OPTIONS} -p {port}", f"scp -q {SSH_OPTIONS} -P {port}"
        ask, place = partial(Command, timeout_s=60), "127.0.0.1:$folder"
        yield ask(f"{shell} 127.0.0.1 cat $folder/big", f"cat over ssh, {how}", big)
        for name, command, file in (
            ("scp up", f"{copy} $folder/big {place}/up-{how}", f"up-{how}"),
            ("scp down, old protocol", f"{copy} -O {place}/big down-{how}", f"down-{how}"),
            ("rsync", f"rsync -q -e '{shell}' $folder/big {place}/rsync-{how}", f"rsync-{how}"),
        ):
            yield ask(command, f"{name}, {how}", files={file: big})
        ways = f"-L 127.0.0.1:{there}:127.0.0.1:$web_port -R 127.0.0.1:{back}:127.0.0.1:$web_port"
        yield Serve(f"{shell} -N {ways} 127.0.0.1", back[1:])
        yield ask(f"curl -sS http://127.0.0.1:{there}/big", f"forwarded there, {how}", big)
        yield ask(f"curl -sS http://127.0.0.1:{back}/big", f"forwarded back, {how}", big)


@program("node", {"node": "nodejs"}, "bytes/s")
def node() -> Steps:
    """client and server: HTTP, back-pressure, full duplex, half close."""
    yield Serve("node $loads/peer.js serve $port $echo_port")
    yield Command("node $loads/peer.js load $port $echo_port", judge=words_in_json, timeout_s=240)


@program("java", {"java": "openjdk-17-jre-headless", "javac": "openjdk-17-jdk-headless"}, "bytes/s")
def java() -> Steps:
    """client and server: HttpClient, HttpServer, a selector, streams, transferTo."""
    yield Command("javac -d $folder $loads/Peer.java")
    yield Serve("java -cp $folder Peer serve $port $echo_port")
    yield Command("java -cp $folder Peer load $port $echo_port", judge=words_in_json, timeout_s=240)


@program("iperf3", {"iperf3": "iperf3"}, "bit/s")
def iperf3() -> Steps:
    """one stream, reverse, four streams, both ways, sendfile, blocks of 500 bytes, a fixed number of bytes, UDP."""
    yield Serve("iperf3 -s -B 127.0.0.1 -p $port")
    for name, flags, is_rated in (
        ("one stream", "-t 2", True),
        ("reverse", "-t 2 -R", True),
        ("four streams", "-t 2 -P 4", True),
        ("both ways", "-t 2 --bidir", False),
        ("sendfile", "-t 2 -Z", False),
        ("blocks of 500 bytes", "-t 2 -l 500", False),
        ("a fixed number of bytes", "-n 20M", False),
        ("UDP", "-t 2 -u -b 20M", False),  # which the library leaves alone
    ):
        judge = partial(words_of_iperf3, is_rated)
        yield Command(f"iperf3 -c 127.0.0.1 -p $port -J {flags}", name, judge=judge, timeout_s=60, statuses=None)


@program(
    "postgres",
    {f"{POSTGRES}/postgres": "postgresql", "psql": "postgresql-client", "pgbench": "postgresql"},
    "transactions/s",
)
def postgres() -> Steps:
    """pgbench over TCP by both protocols, sums, COPY out and in, large values."""
    yield data_folder
    yield Command(f"{POSTGRES}/initdb -D $folder/data -U postgres -A trust -E UTF8 --no-locale -N", user="postgres")
    server = f"{POSTGRES}/postgres -D $folder/data -h 127.0.0.1 -p $port -k '' -F"
    yield Serve(server, user="postgres", stop=signal.SIGINT)
    yield partial(until, f"pg_isready {AT_POSTGRES} -t 1", lambda done: done.returncode == 0)  # it listens before
    yield Command(f"pgbench {AT_POSTGRES} -i -q -s 4 postgres")
    for protocol in ("simple", "prepared"):
        command = f"pgbench {AT_POSTGRES} -n -c 8 -j 2 -t 400 -M {protocol} postgres"  # -n: history stays
        yield Command(command, judge=partial(words_of_pgbench, protocol), timeout_s=300)
    sums = (
        "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)"
        " and (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),"
        " (select count(*) from pgbench_history)"
    )
    yield Command(psql("-At -c", sums), "balances add up, transactions counted", judge=text)
    table = "create table out as select n, md5(n::text) as m from generate_series(1, 200000) n"
    yield Command(psql("-At -c", f"{table}; create table back (like out)"))
    yield copy_out_and_in
    value = lambda: b"qclimb" * 1_000_000 + b"\n"  # noqa: E731
    yield Command(psql("-At -c", "select repeat('qclimb', 1000000)"), "a value of 6 MB", value)


PROGRAMS.append(CPYTHON)
