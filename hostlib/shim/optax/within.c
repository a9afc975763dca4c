#include "optax/within.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* IPv4 as v4-mapped; zeros for a family that has no such address. */
static struct in6_addr address_by(long call, int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} found = { .any.sa_family = AF_UNSPEC };
	struct in6_addr address = IN6ADDR_ANY_INIT;
	socklen_t len = sizeof(found);

	if (qclimb_syscall(call, fd, &found, &len))
		return address;
	if (found.any.sa_family == AF_INET6)
		return found.v6.sin6_addr;
	if (found.any.sa_family == AF_INET) {
		address.s6_addr[10] = address.s6_addr[11] = 0xff;
		memcpy(&address.s6_addr[12], &found.v4.sin_addr, sizeof(found.v4.sin_addr));
	}
	return address;
}

bool is_within_host(int fd)
{
	const int saved = errno;
	const struct in6_addr peer = address_by(SYS_getpeername, fd);
	const struct in6_addr own = address_by(SYS_getsockname, fd);

	errno = saved;
	if (IN6_IS_ADDR_UNSPECIFIED(&peer))
		return false;
	return !memcmp(&peer, &own, sizeof(peer)) || (IN6_IS_ADDR_V4MAPPED(&peer) && peer.s6_addr[12] == 127);
}
