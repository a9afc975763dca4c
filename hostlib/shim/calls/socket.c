/*
 * socket, connect, listen, accept, accept4: where a connection comes to be, and is put to rest at priority 0 before its
 * first packet.
 */
#include "calls/real.h"
#include "base/process.h"
#include "boundary/flow.h"
#include "life/life.h"
#include "optax/optax.h"
#include "optax/received.h"
#include "socket/loans.h"
#include "socket/mark.h"

static void begun(struct connection *connection)
{
	if (connection && optax_is_on())
		received_begin(connection);
}

/* Before the handshake. */
static void prepared(struct connection *connection, int fd)
{
	flow_rest(connection, fd);
	if (optax_is_on())
		optax_prepare(connection, fd);
}

/* Another library or a program of the kernel's may have made it MPTCP, whose bytes go by several connections. */
static bool is_made_tcp(int fd)
{
	const int saved = errno;
	const bool is_so = !qclimb_process.is_passive && sys_option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;

	errno = saved;
	return is_so;
}

QCLIMB_EXPORT int socket(int family, int type, int protocol)
{
	const int fd = real()->socket(family, type, protocol);

	if (fd < 0)
		return fd;
	if (is_tcp(family, type, protocol) && is_made_tcp(fd))
		begun(connection_new(fd, family == AF_INET6, 0));
	else
		connection_set(fd, NULL, FD_LOST);
	return fd;
}

QCLIMB_EXPORT int connect(int fd, CONST_ADDRESS to, socklen_t to_len)
{
	struct connection *connection = connection_of(fd);
	int result;

	if (connection) {
		life_connects(connection);
		connection_doubt(connection); /* mark.c left IP_TOS alone while the peer was IPv6's */
		prepared(connection, fd);
	}
	result = real()->connect(fd, ADDRESS_OF(to), to_len);
	if (!result && connection && !connection->is_fastopen)
		life_met(connection, ADDRESS_OF(to), to_len);
	return result;
}

QCLIMB_EXPORT int listen(int fd, int backlog)
{
	struct connection *connection = connection_of(fd);

	if (connection) {
		prepared(connection, fd);
		mark_listens(connection);
	}
	return real()->listen(fd, backlog);
}

/* An accepted socket inherits the listener's options, ours and the application's. */
static int accepted(int listener_fd, int fd, const struct sockaddr *from, socklen_t from_len)
{
	struct connection *listener = connection_of(listener_fd);
	struct connection *connection;

	if (fd < 0)
		return fd;
	if (!listener) {
		connection_set(fd, NULL, FD_LOST);
		begun(connection_adopt(fd, 1));
		return fd;
	}
	connection = connection_new(fd, listener->is_ipv6, 1);
	if (connection) {
		life_met(connection, from, from_len);
		mark_inherit(connection, fd, listener);
		loans_inherit(connection, listener);
		connection_set_stamped(connection, listener->is_stamped);
		begun(connection);
		if (optax_is_on())
			optax_accepted(connection, listener);
	}
	flow_rest(listener, listener_fd); /* a new policy may have new DSCPs */
	return fd;
}

/*
 * The peer's address comes for little with the connection itself: into room of ours where the application asks for
 * none. In an address that the application cut short nothing is read.
 */
static int accept_any(int fd, struct sockaddr *from, socklen_t *from_len, const int *flags)
{
	struct sockaddr_storage own;
	socklen_t own_len = sizeof(own), room;
	int made;

	if (!from && connection_of(fd)) {
		from = (struct sockaddr *)&own;
		from_len = &own_len;
	}
	room = from && !is_no_memory(from_len) ? *from_len : 0;
	made = flags ? real()->accept4(fd, from, from_len, *flags) : real()->accept(fd, from, from_len);
	return accepted(fd, made, from, made >= 0 && room && *from_len < room ? *from_len : room);
}

QCLIMB_EXPORT int accept(int fd, ADDRESS from, socklen_t *from_len)
{
	return accept_any(fd, ADDRESS_OF(from), from_len, NULL);
}

QCLIMB_EXPORT int accept4(int fd, ADDRESS from, socklen_t *from_len, int flags)
{
	return accept_any(fd, ADDRESS_OF(from), from_len, &flags);
}
