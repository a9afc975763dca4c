/*
 * What a look at a boundary finds: Algorithm 1 (priority.h) against the priority in force and the bytes that the kernel
 * still holds. Changes nothing at the socket; step.h says what is done about it.
 */
#ifndef QCLIMB_LOOK_H
#define QCLIMB_LOOK_H

#include "boundary/write_call.h" /* which says what libc is to declare */

#include "boundary/step.h"
#include "rules/rules.h"
#include "socket/loans.h"

struct look {
	enum boundary_event event;
	uint32_t priority; /* to be marked */
	uint64_t until_bytes; /* the flow may be written to here */
	uint64_t quiet_bytes; /* and to here without another look */
	uint32_t piece_bytes; /* LATE: so much at once; twice as much is lent */
};

static inline enum boundary_state lent_state(const struct connection *connection)
{
	return connection->lent & LENT_CORK	? HELD
	       : connection->lent & LENT_SNDBUF ? LENT
	       : connection->lent		? LATE
						: CALM;
}

/* What the caller knows before it looks. */
enum known {
	KNOWN_NOTHING,
	KNOWN_CLEAR, /* all that was written is ACKed */
	KNOWN_OVER, /* it waited long enough here */
};

/* For the next byte of this call, of which `left` are still to be written. The gate is ours. */
struct look look_at(struct connection *connection, const struct write_call *call, size_t left, enum known known,
		    const struct rules *rules, uint64_t now);

/* A flow has begun: nothing is known of its climbs. */
void look_begins(struct connection *connection);

/*
 * Whether a call goes on at the priority that the flow has, for a bare kernel would take it whole: a program may not
 * know what to do with less (curl 7.88 loses an HTTP/2 request, kafka-python-ng a produce request).
 */
bool puts_off(const struct connection *connection, int fd, size_t left, bool is_demotion);

/*
 * Where several threads write at once, and perhaps always do, nothing is split or waited for: what was transmitted says
 * whether the flow is to be demoted by now.
 */
void demote_transmitted(struct connection *connection, int fd, const struct rules *rules);

#endif
