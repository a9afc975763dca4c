#include "socket/loans.h"

#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "socket/drain.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#define BUF_LOCK_SNDBUF 1 /* SOCK_SNDBUF_LOCK */
#define GIVE_BACK_TRIES 16
#define PACKET_MOST_BYTES 65536

static atomic_bool is_leaving; /* an exec is under way */

static bool may_lend(void)
{
	return !relaxed_get(is_leaving);
}

bool loans_may_concern(int level, int option)
{
	return (level == SOL_SOCKET && (option == SO_SNDBUF || option == SO_SNDBUFFORCE)) ||
	       (level == IPPROTO_TCP && (option == TCP_NOTSENT_LOWAT || option == TCP_CORK || option == TCP_NODELAY));
}

void loans_note(struct connection *connection, int level, int option, int number)
{
	if (level == SOL_SOCKET)
		connection->old_sndbuf = 0; /* it takes the place of what another thread's wait replaced */
	else if (option == TCP_NOTSENT_LOWAT)
		connection->own_lowat = number;
	else if (option == TCP_NODELAY)
		connection->own_nodelay = number != 0;
	else
		connection->has_corked = number != 0;
}

bool loans_show(const struct connection *connection, int level, int option, bool may_wait, int *number)
{
	if (connection->old_sndbuf && level == SOL_SOCKET && option == SO_SNDBUF)
		*number = connection->old_sndbuf;
	else if (connection->lent & LENT_CORK && level == IPPROTO_TCP && option == TCP_CORK)
		*number = 0;
	else if (connection->lent & LENT_LOWAT && level == IPPROTO_TCP && option == TCP_NOTSENT_LOWAT)
		*number = connection->own_lowat;
	else if (may_wait && connection->own_nodelay == 0 && level == IPPROTO_TCP && option == TCP_NODELAY)
		*number = 0;
	else
		return false;
	return true;
}

void loans_inherit(struct connection *connection, const struct connection *listener)
{
	connection->own_lowat = listener->own_lowat;
	connection->own_nodelay = listener->own_nodelay;
	connection->has_corked = listener->has_corked;
}

void push(struct connection *connection, int fd)
{
	const int saved = errno;

	if (connection->own_nodelay < 0)
		connection->own_nodelay = sys_option(fd, IPPROTO_TCP, TCP_NODELAY) != 0;
	(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (connection->own_nodelay == 0) /* another thread may have set it meanwhile: then it stays */
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 0);
	errno = saved;
}

void lend_lowat(struct connection *connection, int fd, int bytes)
{
	const int saved = errno;

	/* One of the application's own that is as small serves as well. */
	if (may_lend() && (connection->own_lowat <= 0 || connection->own_lowat > bytes))
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
	connection->lent |= LENT_LOWAT;
	errno = saved;
}

void lend_sndbuf(struct connection *connection, int fd)
{
	const int saved = errno;

	connection->old_sndbuf = sys_option(fd, SOL_SOCKET, SO_SNDBUF);
	connection->old_buf_lock = sys_option(fd, SOL_SOCKET, SO_BUF_LOCK) & 3;
	if (!may_lend() || (connection->old_sndbuf && sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUF, 1)))
		connection->old_sndbuf = 0; /* refused, and it is as it was: the socket is found writable too soon */
	connection->lent |= LENT_SNDBUF;
	errno = saved;
}

void lend_cork(struct connection *connection, int fd)
{
	const int saved = errno;

	if (may_lend())
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, 1);
	connection->lent |= LENT_CORK;
	errno = saved;
}

/*
 * What is not given back stays with the application for good, which then waits in the midst of its writes: not after
 * the first refusal.
 */
static void give_back(const struct connection *connection, int fd, int level, int option, int value)
{
	const struct connection *now = connection_of(fd);

	if (now && now != connection)
		return; /* another thread put another socket under the number */
	for (int tries = 0; tries < GIVE_BACK_TRIES; tries++)
		if (!sys_setsockopt(fd, level, option, value) || errno == ENOPROTOOPT || errno == EBADF)
			break;
}

static void give_sndbuf(const struct connection *connection, int fd)
{
	if (!connection->old_sndbuf)
		return;
	/* The kernel doubles what it is given; beyond wmem_max it gives less, and autotuning grows it again. */
	give_back(connection, fd, SOL_SOCKET, SO_SNDBUF, connection->old_sndbuf / 2);
	/* One that the application forced beyond it stays as large as it was. */
	if (connection->old_buf_lock & BUF_LOCK_SNDBUF &&
	    sys_option(fd, SOL_SOCKET, SO_SNDBUF) < connection->old_sndbuf)
		(void)sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, connection->old_sndbuf / 2);
	give_back(connection, fd, SOL_SOCKET, SO_BUF_LOCK, connection->old_buf_lock);
}

static void give(const struct connection *connection, int fd)
{
	const int saved = errno;

	if (connection->lent & LENT_LOWAT)
		give_back(connection, fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, connection->own_lowat);
	if (connection->lent & LENT_SNDBUF)
		give_sndbuf(connection, fd);
	if (connection->lent & LENT_CORK)
		give_back(connection, fd, IPPROTO_TCP, TCP_CORK, 0);
	errno = saved;
}

void loans_give(struct connection *connection, int fd)
{
	if (!connection->lent)
		return;
	give(connection, fd);
	connection->lent = 0;
	connection->old_sndbuf = 0;
}

void loans_give_for_exec(struct connection *connection, int fd)
{
	atomic_store(&is_leaving, true);
	give(connection, fd);
}

void loans_exec_failed(void)
{
	atomic_store(&is_leaving, false);
}

static uint64_t room_left(const struct connection *connection, int fd, uint64_t overrun)
{
	uint32_t memory[SK_MEMINFO_VARS] = { 0 };
	const int saved = errno, bytes = unacked_bytes(fd);
	uint64_t room = 0, most;
	uint32_t taken;

	if (bytes >= 0 && !sys_getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, sizeof(memory))) {
		taken = memory[SK_MEMINFO_WMEM_QUEUED];
		most = connection->old_sndbuf ? (uint32_t)connection->old_sndbuf : memory[SK_MEMINFO_SNDBUF];
		room = taken < most ? most - taken + overrun : 0;
		/* Each packet's own needs, as in what waits already. */
		if (bytes && taken > (uint32_t)bytes)
			room = room * (uint32_t)bytes / taken;
	}
	errno = saved;
	return room;
}

bool has_room(const struct connection *connection, int fd, size_t len, bool may_overrun)
{
	return len <= room_left(connection, fd, may_overrun ? PACKET_MOST_BYTES : 0);
}

size_t room_bytes(const struct connection *connection, int fd)
{
	return (size_t)room_left(connection, fd, 0);
}

bool has_own_buffer(const struct connection *connection, int fd)
{
	const int lock = connection->old_sndbuf ? connection->old_buf_lock : sys_option(fd, SOL_SOCKET, SO_BUF_LOCK);

	return (lock & BUF_LOCK_SNDBUF) != 0;
}
