#include "life/announced.h"

#include <string.h>

#include "base/process.h"
#include "life/facts.h"
#include "life/samples.h"
#include "socket/written.h"
#include "rules/services.h"
#include "tell/log.h"

#define PEEK_BYTES 1024 /* of HTTP's header, before a long write: a stack may be small */

/* Whether bytes may begin a message of HTTP/1.x that may have a body. */
static inline bool is_like_http(const uint8_t *head, size_t bytes)
{
	return bytes >= 16 && (!memcmp(head, "HTTP/1.", 7) || !memcmp(head, "POST", 4) || !memcmp(head, "PUT ", 4) ||
			       !memcmp(head, "PATCH", 5));
}

/*
 * Whether a header tells more than the write that it came in: a body is to follow one that ends the write. A short write
 * that goes on behind its header is its whole message, unless the flow before was not.
 */
static bool is_header_alone(const struct connection *connection, const struct shown *shown, size_t wrote)
{
	const struct iovec *last = &shown->parts[shown->count - 1];
	size_t before = 0; /* `last`, of which the kernel took the rest */

	for (size_t i = 0; i + 1 < shown->count; i++)
		before += shown->parts[i].iov_len;
	if (wrote >= QCLIMB_HTTP_HEAD_BYTES || connection->is_untold || !connection->flows || wrote < before + 4 ||
	    wrote - before > last->iov_len)
		return true;
	return !memcmp((const char *)last->iov_base + (wrote - before) - 4, "\r\n\r\n", 4);
}

/* So much of the parts, one after another, as there is room for. The kernel has just read the same bytes. */
static uint32_t gather(const struct shown *shown, size_t wrote, uint8_t *to, size_t room)
{
	size_t done = 0;

	if (room > wrote)
		room = wrote;
	for (size_t i = 0; i < shown->count && done < room; i++) {
		const size_t len = shown->parts[i].iov_len < room - done ? shown->parts[i].iov_len : room - done;

		memcpy(to + done, shown->parts[i].iov_base, len);
		done += len;
	}
	return (uint32_t)done;
}

/* The same before the kernel has; 0: it can't be read. */
static uint32_t peek(const struct shown *shown, uint8_t *to, size_t room)
{
	const struct iovec local = { to, room };
	const int saved = errno;
	const size_t count = shown->count < 8 ? shown->count : 8;
	long got = 0;

	if (qclimb_process.may_peek)
		got = qclimb_syscall(SYS_process_vm_readv, sys_getpid(), &local, 1, shown->parts, count, 0);
	errno = saved;
	return got > 0 ? (uint32_t)got : 0;
}

/* The flow, from its assumed or proven beginning on, has so many bytes. Nothing else is asked about it then. */
static void announce(struct connection *connection, uint64_t bytes, uint8_t by, bool is_exact, uint32_t calm)
{
	struct qclimb_footprint *flow = &connection->footprint;

	if (flow->has_hint || flow->has_forest)
		return;
	connection->announced_by = by & 7;
	qclimb_footprint_announce(flow, qclimb_add_bytes(connection->facts.before_bytes, bytes), is_exact);
	LOG("announced size=%llu by=%u", (unsigned long long)bytes, by);
	if (calm_mode(calm) == QCLIMB_FULL && flow->foretold.lower_bytes > calm_bytes(calm)) {
		facts_flag(connection, QCLIMB_RECORD_LENGTH);
		quiet_no_more(connection); /* its priority is to be looked at */
	} else {
		flow->has_length = 0; /* told in the record; within the calm bytes nothing depends on it */
	}
}

/* HTTP's, if it is; true: there is no more to be said of these bytes. */
static bool look_at_http(struct connection *connection, const struct beginning *beginning, const uint8_t *head,
			 size_t bytes, const struct service *service, uint32_t calm)
{
	const uint32_t asked = beginning->turn > TURNED ? beginning->turn - TURNED : 0;
	uint64_t size;

	if (!is_like_http(head, bytes))
		return false;
	size = qclimb_http_foretell(head, bytes < QCLIMB_HTTP_HEAD_BYTES ? (uint32_t)bytes : QCLIMB_HTTP_HEAD_BYTES,
				    (enum qclimb_http_asked)asked);
	if (connection->announced_by)
		announced_forget(connection); /* of a message before */
	if (size)
		announce(connection, size, QCLIMB_BY_HTTP, service->is_exact && !service->rule.width, calm);
	return true;
}

/* What the first bytes say; false: they may say more once more of them are seen. */
static bool look(struct connection *connection, const struct beginning *beginning, const uint8_t *head, size_t bytes,
		 uint32_t calm, uint64_t now)
{
	const uint16_t port = connection->role ? connection->local_port : connection->peer_port;
	const struct service service = service_of(port, connection->role);
	uint64_t size;

	if (service.is_known && service.state == QCLIMB_LENGTH_FORBIDDEN)
		return true;
	if (look_at_http(connection, beginning, head, bytes, &service, calm))
		return connection->announced_by || bytes >= QCLIMB_HTTP_HEAD_BYTES;
	if (beginning->left_bytes)
		return true; /* they go on with it */
	if (service.rule.width) {
		size = qclimb_length_walk(&service.rule, head,
					  bytes < QCLIMB_HTTP_HEAD_BYTES ? (uint32_t)bytes : QCLIMB_HTTP_HEAD_BYTES);
		if (size && service.state == QCLIMB_LENGTH_TRIAL)
			samples_take(connection, head, (uint32_t)(bytes < 64 ? bytes : 64), size, now);
		else if (size)
			announce(connection, size, QCLIMB_BY_RULE, service.is_exact, calm);
	} else if (connection->is_untold || !connection->flows) {
		samples_take(connection, head, (uint32_t)(bytes < 64 ? bytes : 64), 0, now);
	}
	return true;
}

void announced_leave_message(struct connection *connection, uint8_t turn, struct beginning *beginning)
{
	const uint64_t sent = flow_bytes(connection), end = connection->footprint.foretold.lower_bytes;
	const uint8_t by = connection->announced_by;

	/* After a turn another message begins, but where HTTP asked whether it may go on. */
	if (by && connection->is_open && sent < end && (!turn || by == QCLIMB_BY_HTTP)) {
		beginning->left_bytes = end - sent;
		beginning->left_by = by;
		facts_flag(connection, QCLIMB_RECORD_CUT);
	}
	if (connection->is_sampled && !turn)
		samples_paused(connection);
	if (by && sent == end)
		beginning->is_due = true;
}

/* Of a write that its priority depends on from the first byte. */
static __attribute__((noinline)) void look_before(struct connection *connection, struct beginning *beginning,
						  const struct shown *shown, uint32_t calm, uint64_t now)
{
	uint8_t head[PEEK_BYTES];
	uint32_t bytes = peek(shown, head, QCLIMB_LENGTH_HEAD_BYTES);

	if (!bytes)
		return;
	if (is_like_http(head, bytes))
		bytes = peek(shown, head, sizeof(head));
	beginning->is_due = !look(connection, beginning, head, bytes, calm, now);
}

void announced_begin_message(struct connection *connection, struct beginning *beginning, const struct shown *shown,
			     size_t len, uint32_t calm, uint64_t now)
{
	if (connection->is_foreign || connection->has_unseen) {
		beginning->is_due = false;
		return;
	}
	if (beginning->left_bytes)
		announce(connection, beginning->left_bytes, beginning->left_by, false, calm);
	if (beginning->is_due && calm_mode(calm) == QCLIMB_FULL && len > calm_bytes(calm))
		look_before(connection, beginning, shown, calm, now);
}

/* A header that lies in several parts. */
static __attribute__((noinline)) void look_at_parts(struct connection *connection, const struct beginning *beginning,
						    const struct shown *shown, size_t wrote, uint32_t calm,
						    uint64_t now)
{
	uint8_t head[PEEK_BYTES];

	(void)look(connection, beginning, head, gather(shown, wrote, head, sizeof(head)), calm, now);
}

void announced_look_at(struct connection *connection, const struct beginning *beginning, const struct shown *shown,
		       size_t wrote, uint32_t calm, uint64_t now)
{
	const struct iovec *first = shown->parts;

	if (connection->is_foreign || connection->has_unseen)
		return;
	if (first->iov_len >= 4 && is_like_http(first->iov_base, first->iov_len < wrote ? first->iov_len : wrote) &&
	    !is_header_alone(connection, shown, wrote))
		return;
	if (shown->count > 1 && first->iov_len < wrote && first->iov_len < QCLIMB_HTTP_HEAD_BYTES)
		look_at_parts(connection, beginning, shown, wrote, calm, now);
	else
		(void)look(connection, beginning, first->iov_base, first->iov_len < wrote ? first->iov_len : wrote,
			   calm, now);
}
