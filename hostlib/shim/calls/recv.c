/*
 * recv, recvfrom, recvmsg, recvmmsg, read, readv and what _FORTIFY_SOURCE turns them into: libc's call, then a note of
 * the turn.
 */
#include "calls/real.h"
#include "boundary/flow.h"
#include "optax/optax.h"

#include <limits.h>

static inline __attribute__((always_inline)) ssize_t noted(int fd, const void *bytes, ssize_t got, size_t asked,
							   int flags)
{
	struct connection *connection;

	if (likely(got > 0 && (connection = connection_of(fd)) && !(flags & (MSG_PEEK | MSG_ERRQUEUE))))
		flow_read(connection, fd, flags & MSG_TRUNC ? NULL : bytes, (size_t)got, asked);
	else if (unlikely(got == 0 && asked && (connection = connection_of(fd))))
		got = flow_read_end(connection);
	if (optax_is_on() && (connection = connection_of(fd)))
		optax_read(connection, fd, got, asked, flags);
	return got;
}

/* errno says why. */
static inline bool is_withheld(int fd, int flags)
{
	return optax_is_on() && optax_withholds(fd, flags);
}

/* A descriptor that comes in a message is one that we know nothing of, whatever had its number before. */
static void forget_passed(struct msghdr *message)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= control->cmsg_len; at += sizeof(int)) {
			int fd;

			__builtin_memcpy(&fd, CMSG_DATA(control) + at, sizeof(fd));
			connection_set(fd, NULL, FD_LOST);
		}
	}
}

static size_t room_of(const struct iovec *parts, size_t count)
{
	size_t room = 0;

	for (size_t i = 0; i < count && i < IOV_MAX; i++)
		room += parts[i].iov_len;
	return room;
}

QCLIMB_EXPORT ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
	if (is_withheld(fd, flags))
		return -1;
	return noted(fd, bytes, real()->recv(fd, bytes, len, flags), len, flags);
}

QCLIMB_EXPORT ssize_t recvfrom(int fd, void *bytes, size_t len, int flags, ADDRESS from, socklen_t *from_len)
{
	if (is_withheld(fd, flags))
		return -1;
	return noted(fd, bytes, real()->recvfrom(fd, bytes, len, flags, ADDRESS_OF(from), from_len), len, flags);
}

QCLIMB_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t got;

	if (is_withheld(fd, flags))
		return -1;
	got = real()->recvmsg(fd, message, flags);
	if (got >= 0 && message->msg_controllen)
		forget_passed(message);
	if (got >= 0 && connection_of(fd))
		return noted(fd, NULL, got, room_of(message->msg_iov, message->msg_iovlen), flags);
	return got;
}

QCLIMB_EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, many_flags flags,
			   struct timespec *timeout)
{
	int got;

	if (is_withheld(fd, flags))
		return -1;
	got = real()->recvmmsg(fd, messages, count, flags, timeout);
	for (int i = 0; i < got; i++) {
		if (messages[i].msg_hdr.msg_controllen)
			forget_passed(&messages[i].msg_hdr);
		(void)noted(fd, NULL, (ssize_t)messages[i].msg_len, messages[i].msg_len, (int)flags);
	}
	return got;
}

QCLIMB_EXPORT ssize_t read(int fd, void *bytes, size_t len)
{
	if (is_withheld(fd, 0))
		return -1;
	return noted(fd, bytes, real()->read(fd, bytes, len), len, 0);
}

QCLIMB_EXPORT ssize_t readv(int fd, const struct iovec *parts, int count)
{
	ssize_t got;

	if (is_withheld(fd, 0))
		return -1;
	got = real()->readv(fd, parts, count);
	if (got >= 0 && connection_of(fd))
		return noted(fd, NULL, got, room_of(parts, (size_t)count), 0);
	return got;
}

QCLIMB_EXPORT ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags);
QCLIMB_EXPORT ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags)
{
	if (is_withheld(fd, flags))
		return -1;
	return noted(fd, bytes, real()->__recv_chk(fd, bytes, len, room, flags), len, flags);
}

QCLIMB_EXPORT ssize_t __recvfrom_chk(int fd, void *bytes, size_t len, size_t room, int flags, ADDRESS from,
				     socklen_t *from_len);
QCLIMB_EXPORT ssize_t __recvfrom_chk(int fd, void *bytes, size_t len, size_t room, int flags, ADDRESS from,
				     socklen_t *from_len)
{
	if (is_withheld(fd, flags))
		return -1;
	return noted(fd, bytes, real()->__recvfrom_chk(fd, bytes, len, room, flags, ADDRESS_OF(from), from_len), len,
		     flags);
}

QCLIMB_EXPORT ssize_t __read_chk(int fd, void *bytes, size_t len, size_t room);
QCLIMB_EXPORT ssize_t __read_chk(int fd, void *bytes, size_t len, size_t room)
{
	if (is_withheld(fd, 0))
		return -1;
	return noted(fd, bytes, real()->__read_chk(fd, bytes, len, room), len, 0);
}
