/* socket, connect, listen, accept, accept4: where a connection comes to be, and is put to rest at priority 0 before its first packet. */
#include "flow.h"

QCLIMB_EXPORT int socket(int family, int type, int protocol)
{
	const int fd = real()->socket(family, type, protocol);

	if (fd < 0)
		return fd;
	if (is_tcp(family, type, protocol))
		(void)connection_new(fd, family == AF_INET6, 0);
	else
		connection_set(fd, NULL);
	return fd;
}

QCLIMB_EXPORT int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t to_len)
{
	struct connection *connection = connection_of(fd);

	if (connection) {
		connection->has_addresses = false;
		flow_rest(connection, fd);
	}
	return real()->connect(fd, to.__sockaddr__, to_len);
}

QCLIMB_EXPORT int listen(int fd, int backlog)
{
	struct connection *connection = connection_of(fd);

	if (connection) {
		connection->is_listener = true;
		flow_rest(connection, fd);
	}
	return real()->listen(fd, backlog);
}

/* An accepted socket inherits the listener's options, ours and the application's. */
static int accepted(int listener_fd, int fd)
{
	struct connection *listener = connection_of(listener_fd);
	struct connection *connection;

	if (fd < 0)
		return fd;
	if (!listener) {
		connection_set(fd, NULL);
		(void)connection_adopt(fd, 1);
		return fd;
	}
	connection = connection_new(fd, listener->is_ipv6, 1);
	if (connection) {
		connection->dscp = listener->dscp;
		connection->priority = 0;
		connection->is_released = listener->is_released;
		connection->own_so_priority = listener->own_so_priority;
		connection->own_lowat = listener->own_lowat;
		connection->own_nodelay = listener->own_nodelay;
	}
	flow_rest(listener, listener_fd); /* a new policy may have new DSCPs */
	return fd;
}

QCLIMB_EXPORT int accept(int fd, __SOCKADDR_ARG from, socklen_t *from_len)
{
	return accepted(fd, real()->accept(fd, from.__sockaddr__, from_len));
}

QCLIMB_EXPORT int accept4(int fd, __SOCKADDR_ARG from, socklen_t *from_len, int flags)
{
	return accepted(fd, real()->accept4(fd, from.__sockaddr__, from_len, flags));
}
