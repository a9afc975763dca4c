"""The programs, in the order in which they run: the quick ones first."""

from hostlib.compat.program import Program
from hostlib.compat.programs import cpython, curl, iperf3, java, memcached, nginx, node, openssl, postgres, redis

PROGRAMS: tuple[Program, ...] = tuple(
    module.PROGRAM for module in (curl, openssl, redis, memcached, nginx, node, java, iperf3, postgres, cpython)
)
