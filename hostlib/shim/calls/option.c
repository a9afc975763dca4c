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

#include <netinet/ip.h>
#include <netinet/tcp.h>

static bool is_dscp(int level, int option)
{
	return (level == IPPROTO_IP && option == IP_TOS) || (level == IPPROTO_IPV6 && option == IPV6_TCLASS);
}

/* An application that chooses these has its reasons: a small window of ours could keep it waiting. */
static bool is_receive_buffer(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_RCVBUF || option == SO_RCVBUFFORCE || option == SO_RCVLOWAT)) ||
	       (level == IPPROTO_TCP && option == TCP_WINDOW_CLAMP);
}

#define SO_TIMESTAMPING_OF_2038 65 /* SO_TIMESTAMPING_NEW (asm-generic/socket.h) */

static bool is_stamping(int level, int option)
{
	return level == SOL_SOCKET && (option == SO_TIMESTAMPING || option == SO_TIMESTAMPING_OF_2038);
}

/* Notes what libc has just accepted. */
static void note(struct connection *connection, int level, int option, const void *value, socklen_t len)
{
	int number;

	if (!value || len < sizeof(int))
		return;
	__builtin_memcpy(&number, value, sizeof(number));
	if (level == SOL_SOCKET && option == SO_PRIORITY)
		mark_prefers(connection, number);
	else if (is_stamping(level, option))
		connection_set_stamped(connection, number != 0);
	else if (loans_may_concern(level, option))
		loans_note(connection, level, option, number);
	else if (level == IPPROTO_TCP && option == TCP_FASTOPEN_CONNECT)
		connection->is_fastopen = number != 0;
	else if (level == IPPROTO_TCP && option == TCP_ULP)
		connection_is_foreign(connection); /* a name, not a number; kTLS adds bytes of its own */
}

/* Another thread, in a write. */
static bool may_wait(const struct connection *connection)
{
	return holder_of(atomic_load(&connection->writing)) != 0;
}

/*
 * Whether what libc has just accepted is to be set once more: of ours that it replaced, all is given back. Not before: it
 * may refuse.
 */
static bool take_back(struct connection *connection, int fd, int level, int option)
{
	if (is_dscp(level, option) && !connection->is_released) {
		mark_release(connection, fd, (uint8_t)(sys_option(fd, level, option) >> 2));
		return true;
	}
	if (optax_is_on() && is_receive_buffer(level, option)) {
		optax_release(connection, fd);
		return true;
	}
	return false;
}

QCLIMB_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	struct connection *connection = connection_of(fd);
	const int saved = errno;
	bool is_waited;
	int result;

	if (!connection)
		return real()->setsockopt(fd, level, option, value, len);
	if (connection->lent && loans_may_concern(level, option))
		loans_give(connection, fd); /* the writer asks again */
	is_waited = loans_may_concern(level, option) && may_wait(connection);
	result = real()->setsockopt(fd, level, option, value, len);
	if (result)
		return result;
	if (take_back(connection, fd, level, option))
		return real()->setsockopt(fd, level, option, value, len);
	note(connection, level, option, value, len);
	if (is_waited && real()->setsockopt(fd, level, option, value, len))
		errno = saved; /* a wait that this ended may have given back, before the note, what was there before */
	return 0;
}

/* *number is the kernel's value: the one to show instead; false: what the kernel says is right. */
static bool shown(struct connection *connection, int level, int option, int *number)
{
	if (connection->dscp != DSCP_NOT_SET && is_dscp(level, option))
		*number = mark_shown(connection, level) << 2;
	else if (connection->dscp != DSCP_NOT_SET && level == SOL_SOCKET && option == SO_PRIORITY)
		*number = connection->own_so_priority;
	else if (optax_is_on() && level == SOL_SOCKET && option == SO_RCVBUF)
		return optax_shows_rcvbuf(connection, number);
	else if (level == SOL_SOCKET && option == SO_ERROR && relaxed_get(connection->error_next) && !*number)
		*number = flow_take_error(connection);
	else
		return loans_show(connection, level, option, may_wait(connection), number);
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
