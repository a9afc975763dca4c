/* send, sendto, sendmsg, sendmmsg, write, writev: a piece of each, and the call itself. */
#include "calls/real.h"
#include "boundary/flow.h"

#include <limits.h>

#define PARTS 64 /* of a split writev or sendmsg, handed to libc at once */

/*
 * Later pieces must neither raise SIGPIPE (the call succeeds so far) nor repeat control messages. write() and send()
 * are the same to a socket.
 */
static ssize_t piece_of_bytes(const struct write_call *call, size_t offset, size_t len)
{
	const char *from = (const char *)call->bytes + offset;

	if (call->is_whole)
		return real()->sendto(call->fd, from, len, call->flags, call->to, call->to_len);
	if (!call->is_started && call->is_plain)
		return real()->write(call->fd, from, len);
	return real()->send(call->fd, from, len, call->flags | (call->is_started ? MSG_NOSIGNAL : 0));
}

static size_t bytes_of(const struct iovec *parts, size_t count)
{
	size_t sum = 0;

	if (count && is_no_memory(parts))
		return SIZE_MAX; /* libc says EFAULT */
	for (size_t i = 0; i < count; i++) {
		if (parts[i].iov_len > SSIZE_MAX - sum)
			return SIZE_MAX; /* libc says EINVAL */
		sum += parts[i].iov_len;
	}
	return sum;
}

/*
 * Bytes [offset, offset + len) of the parts, at most PARTS of them at once: fewer bytes than asked for is a short
 * write.
 */
static size_t cut(const struct write_call *call, size_t offset, size_t len, struct iovec *cut_parts, size_t *taken)
{
	size_t count = 0;

	*taken = 0;
	for (size_t i = 0; i < call->part_count && *taken < len && count < PARTS; i++) {
		const struct iovec *part = &call->parts[i];
		size_t rest;

		if (offset >= part->iov_len) {
			offset -= part->iov_len;
			continue;
		}
		rest = part->iov_len - offset < len - *taken ? part->iov_len - offset : len - *taken;
		cut_parts[count++] = (struct iovec){ (char *)part->iov_base + offset, rest };
		*taken += rest;
		offset = 0;
	}
	return count;
}

static ssize_t piece_of_parts(const struct write_call *call, size_t offset, size_t len)
{
	struct iovec cut_parts[PARTS];
	struct msghdr message = { 0 };
	size_t done = 0, taken;
	ssize_t wrote;

	if (offset == 0 && len == call->len) {
		if (call->message)
			return real()->sendmsg(call->fd, call->message, call->flags);
		return real()->writev(call->fd, call->parts, (int)call->part_count);
	}
	do {
		const bool is_first = !call->is_started && !done;

		if (is_first && call->message)
			message = *call->message; /* name and control messages go once */
		else
			message = (struct msghdr){ 0 };
		message.msg_iov = cut_parts;
		message.msg_iovlen = cut(call, offset + done, len - done, cut_parts, &taken);
		wrote = real()->sendmsg(call->fd, &message,
					call->flags | (is_first ? 0 : MSG_NOSIGNAL) |
						(done + taken < len ? MSG_MORE : 0));
		if (wrote < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)wrote;
	} while ((size_t)wrote == taken && done < len);
	return (ssize_t)done;
}

/*
 * Calls that a split would change: urgent data, one completion per call, and TCP Fast Open, which is also what an
 * address is for.
 */
static bool is_whole(int flags, const void *address)
{
	return address || flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN | MSG_ERRQUEUE);
}

QCLIMB_EXPORT ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !len)
		return real()->send(fd, bytes, len, flags);
	call = (struct write_call){ .piece = piece_of_bytes,
				    .fd = fd,
				    .flags = flags,
				    .len = len,
				    .bytes = bytes,
				    .shows = SHOWS_BYTES,
				    .is_whole = is_whole(flags, NULL) };
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t sendto(int fd, const void *bytes, size_t len, int flags, CONST_ADDRESS to, socklen_t to_len)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !len)
		return real()->sendto(fd, bytes, len, flags, ADDRESS_OF(to), to_len);
	call = (struct write_call){ .piece = piece_of_bytes,
				    .fd = fd,
				    .flags = flags,
				    .len = len,
				    .bytes = bytes,
				    .shows = SHOWS_BYTES,
				    .to = ADDRESS_OF(to),
				    .to_len = to_len,
				    .is_whole = is_whole(flags, ADDRESS_OF(to)) };
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t write(int fd, const void *bytes, size_t len)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !len)
		return real()->write(fd, bytes, len);
	call = (struct write_call){
		.piece = piece_of_bytes, .fd = fd, .is_plain = true, .len = len, .bytes = bytes, .shows = SHOWS_BYTES
	};
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || count <= 0 || count > IOV_MAX)
		return real()->writev(fd, parts, count);
	call = (struct write_call){
		.piece = piece_of_parts, .fd = fd, .is_plain = true, .parts = parts, .shows = SHOWS_PARTS
	};
	call.part_count = (size_t)count;
	call.len = bytes_of(parts, call.part_count);
	if (!call.len || call.len == SIZE_MAX)
		return real()->writev(fd, parts, count);
	return flow_write(connection, &call);
}

static ssize_t send_message(struct connection *connection, int fd, const struct msghdr *message, int flags)
{
	struct write_call call = { .piece = piece_of_parts, .fd = fd, .flags = flags, .message = message };

	if (message->msg_iovlen > IOV_MAX)
		return real()->sendmsg(fd, message, flags);
	call.is_whole = is_whole(flags, message->msg_name);
	call.parts = message->msg_iov;
	call.shows = SHOWS_PARTS;
	call.part_count = message->msg_iovlen;
	call.len = bytes_of(call.parts, call.part_count);
	if (!call.len || call.len == SIZE_MAX)
		return real()->sendmsg(fd, message, flags);
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct connection *connection = connection_of(fd);

	if (!connection || is_no_memory(message))
		return real()->sendmsg(fd, message, flags);
	return send_message(connection, fd, message, flags);
}

/*
 * As the kernel does it: message by message, the first failure or short one ends it; errors after the first message
 * wait.
 */
QCLIMB_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, many_flags flags)
{
	struct connection *connection = connection_of(fd);
	unsigned int done;

	if (!connection || is_no_memory(messages))
		return real()->sendmmsg(fd, messages, count, flags);
	for (done = 0; done < count && done < IOV_MAX; done++) {
		const struct msghdr *message = &messages[done].msg_hdr;
		const ssize_t wrote = send_message(connection, fd, message, (int)flags);

		if (wrote < 0)
			return done ? (int)done : -1;
		messages[done].msg_len = (unsigned int)wrote;
		if ((size_t)wrote < bytes_of(message->msg_iov, message->msg_iovlen)) {
			done++;
			break;
		}
	}
	return (int)done;
}
