"""quiet.py ADDRESS PORT [own]: each line `SIZE [TOS]` sets a TOS if one is named, sends so many bytes, waits for
the peer to have them, and says [TOS, SO_PRIORITY] of its socket; with `own`, SO_PRIORITY was 2 from the start."""

import socket
import sys

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if family == socket.AF_INET6 else (socket.IPPROTO_IP, socket.IP_TOS)
to = socket.socket(family)
if sys.argv[3:]:
    to.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 2)
to.connect((sys.argv[1], int(sys.argv[2])))
for line in sys.stdin:
    size, *tos = map(int, line.split())
    if tos:
        to.setsockopt(*option, tos[0])
    to.sendall(bytes(size))
    while size and b"\0" not in to.recv(1):
        pass
    print([to.getsockopt(*option) & ~3, to.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)], flush=True)
