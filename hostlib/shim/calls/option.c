/*
 * setsockopt and getsockopt: what the application sets stays set, and what qclimb sets is not seen. An application that
 * chooses its own DSCP keeps it: the socket is released, its flows are only recorded.
 */
#include "calls/real.h"
#include "socket/loans.h"
#include "boundary/flow.h"
#include "boundary/gate.h"
#include "socket/mark.h"
#include "optax/optax.h"
#include "socket/tagger.h"

#include <netinet/ip.h>
#include <netinet/tcp.h>

static bool is_dscp(int level, int option)
{
	return (level == IPPROTO_IP && option == IP_TOS) || (level == IPPROTO_IPV6 && option == IPV6_TCLASS);
}

static bool is_borrowed(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE)) ||
	       (level == IPPROTO_TCP && (option == TCP_NOTSENT_LOWAT || option == TCP_CORK));
}

/* An application that chooses these has its reasons: a small window of ours could keep it waiting. */
static bool is_receive_buffer(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_RCVBUF || option == SO_RCVBUFFORCE || option == SO_RCVLOWAT)) ||
	       (level == IPPROTO_TCP && option == TCP_WINDOW_CLAMP);
}

static bool is_value(const void *value, socklen_t len)
{
	return value && len >= sizeof(int);
}

/* Notes what libc has just accepted. */
static void note(struct connection *connection, int level, int option, const void *value, socklen_t len)
{
	int number;

	if (!is_value(value, len))
		return;
	__builtin_memcpy(&number, value, sizeof(number));
	if (level == SOL_SOCKET && option == SO_PRIORITY)
		connection->own_so_priority = number;
	else if (level == IPPROTO_TCP && option == TCP_NOTSENT_LOWAT)
		connection->own_lowat = number;
	else if (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE))
		connection->old_sndbuf = 0; /* it takes the place of what another thread's wait replaced */
	else if (level == IPPROTO_TCP && option == TCP_NODELAY)
		connection->own_nodelay = number != 0;
	else if (level == IPPROTO_TCP && option == TCP_CORK)
		connection->has_corked = number != 0;
	else if (level == IPPROTO_TCP && option == TCP_FASTOPEN_CONNECT)
		connection->is_fastopen = number != 0;
	else if (level == IPPROTO_TCP && option == TCP_ULP)
		connection->is_foreign = true; /* a name, not a number; kTLS adds bytes of its own */
}

/* Another thread, in a write. */
static bool may_wait(const struct connection *connection)
{
	return holder_of(atomic_load(&connection->writing)) != 0;
}

/* What a wait inside a write borrows. */
static bool is_lent(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE)) ||
	       (level == IPPROTO_TCP && (option == TCP_NOTSENT_LOWAT || option == TCP_NODELAY));
}

QCLIMB_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct connection *connection = connection_of(fd);
	const int saved = errno;
	bool is_waited;
	int result;

	if (!connection)
		return real()->setsockopt(fd, level, option, value, len);
	if (is_dscp(level, option) && !connection->is_released) {
		tagger_forget(connection, fd);
		mark_nothing(connection, fd);
		connection->is_released = true;
		connection->quiet_bytes = 0;
	}
	if (connection->lent && is_borrowed(level, option))
		loans_give(connection, fd); /* the writer asks again */
	if (optax_is_on() && is_receive_buffer(level, option))
		optax_release(connection, fd);
	is_waited = is_lent(level, option) && may_wait(connection);
	result = real()->setsockopt(fd, level, option, value, len);
	if (result)
		return result;
	note(connection, level, option, value, len);
	if (is_waited && real()->setsockopt(fd, level, option, value, len))
		errno = saved; /* a wait that this ended may have given back, before the note, what was there before */
	return 0;
}

/* *number is the kernel's value: the one to show instead; false: what the kernel says is right. */
static bool shown(struct connection *connection, int level, int option, int *number)
{
	if (connection->dscp != DSCP_NOT_SET && is_dscp(level, option))
		*number = 0;
	else if (connection->dscp != DSCP_NOT_SET && level == SOL_SOCKET && option == SO_PRIORITY)
		*number = connection->own_so_priority >= 0 ? connection->own_so_priority : 0;
	else if (connection->old_sndbuf && level == SOL_SOCKET && option == SO_SNDBUF)
		*number = connection->old_sndbuf;
	else if (connection->lent & LENT_CORK && level == IPPROTO_TCP && option == TCP_CORK)
		*number = 0;
	else if (connection->lent & LENT_LOWAT && level == IPPROTO_TCP && option == TCP_NOTSENT_LOWAT)
		*number = connection->own_lowat;
	else if (may_wait(connection) && connection->own_nodelay == 0 && level == IPPROTO_TCP && option == TCP_NODELAY)
		*number = 0;
	else if (optax_is_on() && level == SOL_SOCKET && option == SO_RCVBUF)
		return optax_shows_rcvbuf(connection, number);
	else if (level == SOL_SOCKET && option == SO_ERROR && relaxed_get(connection->error_next) && !*number)
		*number = flow_take_error(connection);
	else
		return false;
	return true;
}

QCLIMB_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	const int result = real()->getsockopt(fd, level, option, value, len);
	struct connection *connection;
	int number = 0;

	if (result || !*len || !(connection = connection_of(fd)))
		return result;
	__builtin_memcpy(&number, value, *len < sizeof(number) ? *len : sizeof(number));
	if (shown(connection, level, option, &number))
		__builtin_memcpy(value, &number, *len < sizeof(number) ? *len : sizeof(number));
	return result;
}
