#include "optax/received.h"

#include <netinet/in.h>
#include <sys/mman.h>

_Atomic(struct received *) qclimb_received_chunks[RECEIVED_CHUNKS];

void received_begin(struct connection *connection)
{
	_Atomic(struct received *) *place =
		&qclimb_received_chunks[connection->slot / RECEIVED_CHUNK % RECEIVED_CHUNKS];
	struct received *none = NULL;
	const int saved = errno;
	void *chunk;

	if (!atomic_load(place)) {
		chunk = mmap(NULL, RECEIVED_CHUNK * sizeof(struct received), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk != MAP_FAILED && !atomic_compare_exchange_strong(place, &none, chunk))
			munmap(chunk, RECEIVED_CHUNK * sizeof(struct received));
	}
	if (atomic_load(place))
		*received_of(connection) = (struct received){ 0 };
	errno = saved;
}

static bool is_within_host(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} peer, own;
	socklen_t peer_len = sizeof(peer), own_len = sizeof(own);

	if (qclimb_syscall(SYS_getpeername, fd, &peer, &peer_len) ||
	    qclimb_syscall(SYS_getsockname, fd, &own, &own_len))
		return false;
	if (peer.any.sa_family == AF_INET)
		return peer.v4.sin_addr.s_addr == own.v4.sin_addr.s_addr ||
		       ntohl(peer.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_ARE_ADDR_EQUAL(&peer.v6.sin6_addr, &own.v6.sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&peer.v6.sin6_addr) && peer.v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

bool received_is_within_host(struct received *flow, int fd)
{
	uint32_t where = relaxed_get(flow->where);

	if (where == WHERE_NOT_ASKED) {
		where = is_within_host(fd) ? WHERE_HOST : WHERE_LINK;
		relaxed_set(flow->where, where);
	}
	return where == WHERE_HOST;
}

void received_after_fork(void)
{
	for (uint32_t i = 0; i < RECEIVED_CHUNKS && atomic_load(&qclimb_received_chunks[i]); i++)
		for (uint32_t slot = 0; slot < RECEIVED_CHUNK; slot++)
			atomic_store(&atomic_load(&qclimb_received_chunks[i])[slot].kind, KIND_KERNELS);
}
