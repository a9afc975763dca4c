/* send, sendto, sendmsg, sendmmsg, write, writev: a piece of each, and the call itself. */
#include "calls/real.h"
#include "boundary/flow.h"
#include "socket/loans.h"
#include "socket/mark.h"

#define PARTS 64 /* of a split writev or sendmsg, handed to libc at once */

/* Later pieces must not raise SIGPIPE (the call succeeds so far), and no piece waits while signals are held. */
static int flags_of_piece(const struct write_call *call, bool is_first)
{
	return call->flags | (is_first ? 0 : MSG_NOSIGNAL) | (call->is_cut ? MSG_DONTWAIT : 0);
}

/* write() and send() are the same to a socket. */
static ssize_t piece_of_bytes(const struct write_call *call, size_t offset, size_t len)
{
	const char *from = (const char *)call->bytes + offset;

	if (call->is_whole)
		return real()->sendto(call->fd, from, len, call->flags, call->to, call->to_len);
	if (call->is_plain && !call->is_started && !call->is_cut)
		return real()->write(call->fd, from, len);
	return real()->send(call->fd, from, len, flags_of_piece(call, !call->is_started));
}

#define NOT_OURS SIZE_MAX

/* Bytes of all parts; NOT_OURS where the kernel may refuse one. Without overflow: 2^10 parts of less than 2^48. */
static size_t bytes_of(const struct iovec *parts, size_t count)
{
	size_t sum = 0;

	if (count > IOV_MAX || (count && is_no_memory(parts)))
		return NOT_OURS;
	for (size_t i = 0; i < count; i++) {
		if (!is_splittable(parts[i].iov_base, parts[i].iov_len))
			return NOT_OURS;
		sum += parts[i].iov_len;
	}
	return limit_to_call(sum);
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

	if (offset == 0 && len == call->len && !call->is_cut) {
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
					flags_of_piece(call, is_first) | (done + taken < len ? MSG_MORE : 0));
		if (wrote < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)wrote;
	} while ((size_t)wrote == taken && done < len);
	return (ssize_t)done;
}

/*
 * Calls that a split would change: urgent data, one completion per call, control messages (which ask for one), and TCP
 * Fast Open, which is also what an address is for.
 */
static bool is_whole(int flags, const void *address)
{
	return address || flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN | MSG_ERRQUEUE);
}

QCLIMB_EXPORT ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !len || !is_splittable(bytes, len))
		return real()->send(fd, bytes, len, flags);
	call = (struct write_call){ .piece = piece_of_bytes,
				    .fd = fd,
				    .flags = flags,
				    .len = limit_to_call(len),
				    .bytes = bytes,
				    .shows = SHOWS_BYTES,
				    .is_whole = is_whole(flags, NULL) };
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t sendto(int fd, const void *bytes, size_t len, int flags, CONST_ADDRESS to, socklen_t to_len)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !len || !is_splittable(bytes, len))
		return real()->sendto(fd, bytes, len, flags, ADDRESS_OF(to), to_len);
	call = (struct write_call){ .piece = piece_of_bytes,
				    .fd = fd,
				    .flags = flags,
				    .len = limit_to_call(len),
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

	if (!connection || !len || !is_splittable(bytes, len))
		return real()->write(fd, bytes, len);
	call = (struct write_call){ .piece = piece_of_bytes,
				    .fd = fd,
				    .is_plain = true,
				    .len = limit_to_call(len),
				    .bytes = bytes,
				    .shows = SHOWS_BYTES };
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || count <= 0)
		return real()->writev(fd, parts, count);
	call = (struct write_call){
		.piece = piece_of_parts, .fd = fd, .is_plain = true, .parts = parts, .shows = SHOWS_PARTS
	};
	call.part_count = (size_t)count;
	call.len = bytes_of(parts, call.part_count);
	if (!call.len || call.len == NOT_OURS)
		return real()->writev(fd, parts, count);
	return flow_write(connection, &call);
}

/* A connection that is passed to another process is that one's to write to: it has nothing of ours. */
static __attribute__((cold, noinline)) void hand_on(const struct msghdr *message)
{
	const int saved = errno;
	struct msghdr own = *message;
	struct connection *connection;

	for (struct cmsghdr *control = CMSG_FIRSTHDR(&own); control; control = CMSG_NXTHDR(&own, control)) {
		if (control->cmsg_len > own.msg_controllen - (size_t)((char *)control - (char *)own.msg_control))
			return; /* the kernel's to refuse */
		if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= control->cmsg_len; at += sizeof(int)) {
			int fd;

			__builtin_memcpy(&fd, CMSG_DATA(control) + at, sizeof(fd));
			if (!(connection = connection_of(fd)))
				continue;
			connection_is_foreign(connection);
			loans_give(connection, fd);
			mark_nothing(connection, fd);
		}
	}
	errno = saved;
}

QCLIMB_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct connection *connection = connection_of(fd);
	struct write_call call = { .piece = piece_of_parts, .fd = fd, .flags = flags, .message = message };

	if (!connection && !is_no_memory(message) && message->msg_controllen && !is_no_memory(message->msg_control))
		hand_on(message);
	if (!connection || is_no_memory(message))
		return real()->sendmsg(fd, message, flags);
	call.is_whole = is_whole(flags, message->msg_name) || message->msg_controllen;
	call.parts = message->msg_iov;
	call.shows = SHOWS_PARTS;
	call.part_count = message->msg_iovlen;
	call.len = bytes_of(call.parts, call.part_count);
	if (!call.len || call.len == NOT_OURS)
		return real()->sendmsg(fd, message, flags);
	return flow_write(connection, &call);
}

/* Of one sendmmsg. */
struct messages {
	struct mmsghdr *list;
	unsigned int count;
	int done; /* as the kernel counts, where it had the whole call */
};

static size_t bytes_of_message(const struct mmsghdr *message)
{
	return bytes_of(message->msg_hdr.msg_iov, message->msg_hdr.msg_iovlen);
}

/* Cut, the messages are written as one, but for what each of them has besides its bytes. */
static ssize_t piece_of_messages(const struct write_call *call, size_t offset, size_t len)
{
	struct messages *messages = call->messages;
	size_t done = 0, at = 0, bytes, taken;
	ssize_t wrote;

	if (offset == 0 && len == call->len && !call->is_cut) {
		messages->done = real()->sendmmsg(call->fd, messages->list, messages->count, (many_flags)call->flags);
		for (int i = 0; i < messages->done; i++)
			done += messages->list[i].msg_len;
		return messages->done < 0 ? -1 : (ssize_t)done;
	}
	for (struct mmsghdr *message = messages->list; done < len; message++, at += bytes) {
		struct write_call one = *call;

		bytes = bytes_of_message(message);
		if (offset + done >= at + bytes)
			continue;
		one.message = &message->msg_hdr;
		one.parts = message->msg_hdr.msg_iov;
		one.part_count = message->msg_hdr.msg_iovlen;
		one.is_started = offset + done > at;
		taken = at + bytes - offset - done < len - done ? at + bytes - offset - done : len - done;
		wrote = piece_of_parts(&one, offset + done - at, taken);
		if (wrote < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)wrote;
		if ((size_t)wrote < taken)
			break;
	}
	return (ssize_t)done;
}

/* Of messages that were written as one: how many, the last perhaps in part. */
static int count_messages(const struct messages *messages, size_t wrote)
{
	unsigned int count;

	for (count = 0; count < messages->count && count < IOV_MAX; count++) {
		const size_t bytes = bytes_of_message(&messages->list[count]);

		if (bytes && !wrote)
			break;
		messages->list[count].msg_len = (unsigned int)(bytes < wrote ? bytes : wrote);
		wrote -= messages->list[count].msg_len;
	}
	return (int)count;
}

QCLIMB_EXPORT int sendmmsg(int fd, struct mmsghdr *list, unsigned int count, many_flags flags)
{
	struct connection *connection = connection_of(fd);
	struct messages messages = { list, count, 0 };
	struct write_call call = { .piece = piece_of_messages, .fd = fd, .flags = (int)flags };
	ssize_t wrote;

	if (!connection || (count && is_no_memory(list)))
		return real()->sendmmsg(fd, list, count, flags);
	for (unsigned int i = 0; i < count && i < IOV_MAX; i++) {
		const size_t bytes = bytes_of_message(&list[i]);

		if (bytes == NOT_OURS)
			return real()->sendmmsg(fd, list, count, flags);
		call.len += bytes;
		call.is_whole |= is_whole((int)flags, list[i].msg_hdr.msg_name) || list[i].msg_hdr.msg_controllen;
	}
	if (!call.len)
		return real()->sendmmsg(fd, list, count, flags);
	call.messages = &messages;
	wrote = flow_write(connection, &call);
	return wrote < 0 ? -1 : messages.done ? messages.done : count_messages(&messages, (size_t)wrote);
}
