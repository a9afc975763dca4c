/*
 * What a flow's own bytes announce of its size (qclimb/length.h): its first ones, looked at in a way that can fail, or
 * once the kernel has taken them; or the message that a flow before left unfinished (a stalled writer, HTTP's
 * `Expect: 100-continue`). Invariant: a bad pointer stays the kernel's to refuse.
 *
 * Bytes that the kernel took from this very call were readable a moment ago: they are looked at where they lie. That is
 * early enough for a write that ends within the calm bytes (rules.h), which are served first whatever is announced. Of
 * a longer one the priority depends on it from the first byte: 64 bytes of it, 1 KB of HTTP's, are read before by
 * process_vm_readv, which such a write is long enough for.
 */
#ifndef QCLIMB_ANNOUNCED_H
#define QCLIMB_ANNOUNCED_H

#include "socket/connection.h"
#include "rules/rules.h"
#include "rules/services.h"

/* Where a call's bytes lie; count 0: they are not shown (sendfile, splice). */
struct shown {
	const struct iovec *parts;
	size_t count;
};

/* A flow that begins, from the end of the one before to its first write's return. */
struct beginning {
	uint64_t left_bytes; /* of the message that the flow before left unfinished */
	uint8_t left_by; /* enum qclimb_announced_by */
	uint8_t turn; /* connection->is_turned as it was */
	bool is_due; /* its bytes are still to be looked at */
};

/* What is left of a message, and what a sample is told, where there is either. */
void announced_leave_message(struct connection *connection, uint8_t turn, struct beginning *beginning);

/* Before the flow under way is finished: what it leaves. Marks it where it was cut. */
static inline void announced_leave(struct connection *connection, uint8_t turn, struct beginning *beginning)
{
	beginning->left_bytes = 0;
	beginning->turn = turn;
	/* After a pause a message begins where the one before ended, or at the connection's first byte. */
	beginning->is_due = turn || !connection->flows;
	if (unlikely(connection->announced_by || connection->is_sampled))
		announced_leave_message(connection, turn, beginning);
}

void announced_begin_message(struct connection *connection, struct beginning *beginning, const struct shown *shown,
			     size_t len, uint32_t calm, uint64_t now);

/* The flow has started, and its first call asks for len bytes: before it is written. */
static inline void announced_begin(struct connection *connection, struct beginning *beginning,
				   const struct shown *shown, size_t len, uint32_t calm, uint64_t now)
{
	if (unlikely(!shown->count))
		beginning->is_due = false;
	if (unlikely(beginning->left_bytes || len > calm_bytes(calm)))
		announced_begin_message(connection, beginning, shown, len, calm, now);
}

void announced_look_at(struct connection *connection, const struct beginning *beginning, const struct shown *shown,
		       size_t wrote, uint32_t calm, uint64_t now);

/* The kernel took `wrote` bytes of that call. Most messages are looked at by their first byte. */
static inline void announced_look(struct connection *connection, const struct beginning *beginning,
				  const struct shown *shown, size_t wrote, uint32_t calm, uint64_t now)
{
	const struct iovec *first = shown->parts;
	uint8_t byte;

	if (!beginning->is_due || !shown->count || wrote < 8)
		return;
	byte = first->iov_len ? *(const uint8_t *)first->iov_base : 'H';
	if (byte == 'H' || byte == 'P' || connection->is_untold || !connection->flows || relaxed_get(qclimb_services))
		announced_look_at(connection, beginning, shown, wrote, calm, now);
}

/* Nothing is. */
static inline void announced_forget(struct connection *connection)
{
	connection->announced_by = QCLIMB_BY_NOBODY;
	connection->footprint.has_length = 0;
	connection->footprint.foretold.lower_bytes = 0;
	connection->footprint.foretold.upper_bytes = QCLIMB_UNKNOWN_BYTES;
}

/* What the flow's record says of it. */
static inline uint64_t announced_bytes(const struct connection *connection)
{
	const uint64_t before = connection->facts.before_bytes, end = connection->footprint.foretold.lower_bytes;

	return connection->announced_by && end > before ? end - before : 0;
}

#endif
