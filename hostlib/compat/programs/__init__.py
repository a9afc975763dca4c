"""The programs, in the order in which they run: the quick ones first."""

from hostlib.compat.program import Program
from hostlib.compat.programs import (
    cpython,
    curl,
    haproxy,
    iperf3,
    java,
    memcached,
    nbd,
    nginx,
    node,
    openssl,
    postgres,
    redis,
    ssh,
)

PROGRAMS: tuple[Program, ...] = tuple(
    module.PROGRAM
    for module in (curl, openssl, redis, memcached, nginx, haproxy, nbd, ssh, node, java, iperf3, postgres, cpython)
)
