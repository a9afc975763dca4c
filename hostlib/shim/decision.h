/*
 * How far a flow may be written, at which priority, and what must be waited for first: Algorithm 1 (priority.h) on a
 * socket, where an earlier-served priority waits for a drain and a later-served one until what was written is
 * transmitted. Does not wait itself, but pushes what a wait would be for.
 */
#ifndef QCLIMB_DECISION_H
#define QCLIMB_DECISION_H

#include "connection.h"
#include "rules.h"

struct decision {
	uint64_t until_bytes; /* the flow may be written to here */
	uint64_t quiet_bytes; /* and to here without another decision */
	enum { GO, WAIT_TRANSMITTED, WAIT_DRAINED } step;
	uint64_t promote_wait_ns;
};

/* What the caller has made sure of before it asks. */
enum ready {
	READY_NOT,
	READY_TRANSMITTED,
	READY_DRAINED,
	READY_NEVER, /* a drain was given up */
	READY_PUT_OFF, /* goes on at the priority that it has: the next call asks again */
	READY_LATER, /* nothing may be written now */
	READY_HOLD, /* the next bytes may be written to be held back */
};

/* Decides for the next byte. Sets the socket's priority where that may be done now. */
struct decision decide(struct connection *connection, int fd, const struct rules *rules, enum ready ready,
		       uint64_t now);

/*
 * Where several threads write at once, and perhaps always do, nothing is split or waited for: what was transmitted says
 * whether the flow is to be demoted by now. Late, never early.
 */
void demote_transmitted(struct connection *connection, int fd, const struct rules *rules);

#endif
