/* A decided call, piece by piece: to the application one step, as it is to a bare kernel. */
#include "boundary/pieces.h"

#include "base/process.h"
#include "boundary/gate.h"
#include "boundary/grant.h"
#include "socket/drain.h"
#include "socket/loans.h"
#include "socket/written.h"
#include "tell/log.h"

/* By the kernel's word. */
static bool is_socket(int fd, uint64_t cookie)
{
	uint64_t found = 0;

	return !sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &found, sizeof(found)) && found == cookie;
}

enum number {
	NUMBER_OURS,
	NUMBER_BARE, /* the socket's still, but closed in a table that is another thread's alone, or withdrawn */
	NUMBER_GONE, /* EBADF */
};

/*
 * Another thread may close the number while a piece waits, or put another file under it: the rest must not go there.
 * After a withdrawal all numbers are as they were.
 */
static enum number find_number(const struct connection *connection, uint64_t cookie, struct write_call *call)
{
	if (likely(connection_of(call->fd) == connection && connection->cookie == cookie) || qclimb_process.is_passive)
		return NUMBER_OURS;
	LOG("fd=%d was taken from under a write", call->fd);
	if (is_socket(call->fd, cookie))
		return NUMBER_BARE;
	call->fd = connection->cookie == cookie ? connection_number(connection) : -1;
	errno = EBADF;
	return call->fd >= 0 ? NUMBER_OURS : NUMBER_GONE;
}

/* What is left of a call whose connection is no longer ours, as it would have gone without us. */
static ssize_t write_rest(const struct write_call *call, size_t done)
{
	const ssize_t wrote = call->piece(call, done, call->len - done);

	return wrote < 0 && done ? (ssize_t)done : wrote + (ssize_t)done;
}

/*
 * A piece of a cut call does not wait in the kernel, where signals would stay held. sendfile and splice know no
 * MSG_DONTWAIT: they are asked for what there is room for.
 */
static ssize_t write_piece(const struct connection *connection, const struct write_call *call, size_t offset,
			   size_t len)
{
	size_t room;

	if (call->is_cut && call->shows == SHOWS_NOTHING && is_blocking(call->fd, call->flags)) {
		if (call->is_started && has_hung_up(call->fd)) {
			errno = EPIPE; /* past the kernel, which would raise SIGPIPE */
			return -1;
		}
		room = room_bytes(connection, call->fd);
		if (!room && !has_hung_up(call->fd)) {
			errno = EAGAIN;
			return -1;
		}
		len = room && room < len ? room : len;
	}
	return call->piece(call, offset, len);
}

static void release(struct cut *cut)
{
	if (cut->is_held)
		release_signals(&cut->signals);
	cut->is_held = false;
}

/* Whether a piece for which there was no room is tried again; else errno: as the kernel's own wait for room ends. */
static bool wait_for_room(struct write_call *call, struct cut *cut)
{
	uint64_t began, timeout_ns;
	enum waited waited;

	if (!call->is_cut || errno != EAGAIN || !is_blocking(call->fd, call->flags))
		return false;
	began = now_ns();
	timeout_ns = send_timeout_ns(call->fd);
	timeout_ns = cut->waited_ns < timeout_ns ? timeout_ns - cut->waited_ns : 0;
	waited = wait_writable(call->fd, timeout_ns, cut->is_held ? &cut->signals : NULL);
	cut->waited_ns += now_ns() - began;
	if (waited == WAITED_ERROR) {
		if (call->is_started && has_hung_up(call->fd))
			return false; /* its error is the kernel's to tell, to a read as well */
		release(cut);
		call->is_cut = false; /* the kernel says why, or waits itself */
	}
	errno = waited == WAITED_SIGNAL ? EINTR : EAGAIN;
	return waited == WAITED_DONE || waited == WAITED_ERROR ||
	       (waited == WAITED_SIGNAL && !call->is_started && !signal_interrupts(call->fd));
}

/* Of a connection, which the kernel tells once; others are of the call's arguments, and nothing of the next call's. */
static bool is_of_connection(int error)
{
	switch (error) {
	case ECONNRESET:
	case ECONNABORTED:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case EPROTO:
	case ENOPROTOOPT:
		return true;
	default:
		return false;
	}
}

static ssize_t write_cut(struct connection *connection, struct write_call *call, enum known known, uint64_t now,
			 struct cut *cut)
{
	const uint64_t cookie = connection->cookie;
	uint64_t written = 0;
	size_t done = 0;

	while (done < call->len) {
		const size_t left = call->len - done;
		size_t len = grant(connection, call, left, known, done ? now_ns() : now, cut);
		bool is_holder;
		ssize_t wrote;

		switch (find_number(connection, cookie, call)) {
		case NUMBER_OURS:
			break;
		case NUMBER_BARE:
			if (connection->cookie == cookie)
				loans_give(connection, call->fd);
			release(cut);
			call->is_cut = false;
			return write_rest(call, done);
		case NUMBER_GONE:
			return done ? (ssize_t)done : -1;
		}
		if (!len)
			return done ? (ssize_t)done : -1;
		is_holder = holder_of(atomic_load(&connection->writing)) == this_thread();
		if (done && is_holder && relaxed_get(connection->written) != written)
			return (ssize_t)done; /* a signal handler wrote in a wait for room, which ends the call */
		if (!is_holder)
			len = left; /* another thread waited for too long, and writes between further pieces */
		if (len < left && !call->is_cut) {
			call->is_cut = true;
			cut->is_held = hold_signals(&cut->signals);
		}
		known = KNOWN_NOTHING;
		wrote = write_piece(connection, call, done, len);
		if (wrote < 0) {
			if (wait_for_room(call, cut))
				continue;
			if (!done)
				return -1;
			if (is_of_connection(errno)) {
				relaxed_set(connection->error_next, (uint16_t)errno);
				quiet_no_more(connection);
			}
			return (ssize_t)done;
		}
		written_alone(connection, (uint64_t)wrote);
		written = relaxed_get(connection->written);
		done += (size_t)wrote;
		call->is_started = true;
		if ((size_t)wrote < len && (!wrote || !call->is_cut || !is_blocking(call->fd, call->flags)))
			break;
	}
	return (ssize_t)done;
}

ssize_t write_pieces(struct connection *connection, struct write_call *call, enum known known, uint64_t now)
{
	struct cut cut = { .patience_ns = GATE_NS / 2 };
	const ssize_t wrote = write_cut(connection, call, known, now, &cut);

	release(&cut);
	return wrote;
}
