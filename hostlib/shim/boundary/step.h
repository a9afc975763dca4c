/*
 * What is done at a boundary: one table, state x event -> action. Pure: it knows no socket, clock or policy.
 * A demotion comes late, never early: up to L bytes go on at the priority before, and only then is the kernel asked to
 * take no more than it can soon send (LATE). A climb waits until all that went before is ACKed (LENT, HELD).
 * Invariant: CALM is the only state in which nothing is lent, and each way out of another state gives it back.
 */
#ifndef QCLIMB_STEP_H
#define QCLIMB_STEP_H

#include <stdint.h>

enum boundary_state {
	CALM,
	LATE, /* TCP_NOTSENT_LOWAT is lent: bytes of before the boundary are not transmitted yet */
	LENT, /* SO_SNDBUF is lent: the kernel tells when about one segment is not ACKed */
	HELD, /* TCP_CORK too, over bytes that are to go at the new priority */
	BOUNDARY_STATES
};

enum boundary_event {
	/* What a look finds (look.h). */
	FREE, /* not ours to mark */
	SAME, /* the priority is right */
	PAST, /* served later, and all before the boundary is transmitted */
	AHEAD, /* served later, and not all is */
	CLEAR, /* served earlier, and all is ACKed but what is held back */
	WORTH, /* served earlier, and a drain saves more time than it costs */
	VAIN, /* a change would be due, and no more can or need be done for it now */
	/* What a wait ends with (grant.c); a socket that is writable is looked at. */
	FULL, /* it is not, and the caller does not wait: an event will come */
	OVER, /* the longest wait is over */
	STOP, /* the caller's call ends here: a signal, its own time-out, a peer that is gone in the midst of it */
	HUNG, /* a peer is gone before it: libc is to say so */
	BOUNDARY_EVENTS
};

enum {
	MARK = 1,
	GIVE = 2, /* what is lent */
	LEND_LOWAT = 4,
	LEND_SNDBUF = 8,
	LEND_CORK = 16,
	KEEP = 32, /* the wait was in vain: no climb before the next boundary, no wait for this one */
};

enum boundary_then {
	GO, /* up to the next boundary */
	PIECE, /* as much as the kernel takes without waiting */
	HOLD, /* a few bytes, to be held back */
	AGAIN, /* wait or look again */
	REFUSE, /* nothing: short, or the error of the wait */
};

struct boundary_step {
	uint8_t actions; /* in the order of their bits */
	uint8_t then; /* enum boundary_then */
};

/* clang-format off */
static const struct boundary_step boundary_steps[BOUNDARY_STATES][BOUNDARY_EVENTS] = {
	[CALM] = {
		[FREE] = { 0, GO },
		[SAME] = { 0, GO },
		[PAST] = { MARK, GO },
		[AHEAD] = { MARK | LEND_LOWAT, AGAIN },
		[CLEAR] = { MARK, GO },
		[WORTH] = { LEND_SNDBUF, AGAIN },
		[VAIN] = { MARK, GO },
		/* Nothing is waited for. */
		[FULL] = { 0, GO }, [OVER] = { 0, GO }, [STOP] = { 0, GO }, [HUNG] = { 0, GO },
	},
	[LATE] = {
		[FREE] = { GIVE, GO },
		[SAME] = { GIVE, GO },
		[PAST] = { MARK | GIVE, GO },
		[AHEAD] = { MARK, PIECE },
		[CLEAR] = { MARK | GIVE, GO },
		[WORTH] = { GIVE | LEND_SNDBUF, AGAIN },
		[VAIN] = { MARK | GIVE, GO },
		[FULL] = { 0, REFUSE },
		[OVER] = { GIVE | KEEP, AGAIN },
		[STOP] = { GIVE, REFUSE },
		[HUNG] = { GIVE, GO },
	},
	[LENT] = {
		[FREE] = { GIVE, GO },
		[SAME] = { GIVE, AGAIN },
		[PAST] = { GIVE, AGAIN },
		[AHEAD] = { GIVE, AGAIN },
		[CLEAR] = { MARK | GIVE, GO },
		[WORTH] = { LEND_CORK, HOLD },
		[VAIN] = { GIVE | KEEP, AGAIN },
		[FULL] = { 0, REFUSE },
		[OVER] = { GIVE | KEEP, AGAIN },
		[STOP] = { GIVE, REFUSE },
		[HUNG] = { GIVE, GO },
	},
	[HELD] = {
		[FREE] = { GIVE, GO },
		[SAME] = { GIVE, AGAIN },
		[PAST] = { GIVE, AGAIN },
		[AHEAD] = { GIVE, AGAIN },
		[CLEAR] = { MARK | GIVE, GO },
		[WORTH] = { GIVE | KEEP, AGAIN }, /* writable, yet something is not ACKed: a loss probe sent the held bytes */
		[VAIN] = { GIVE | KEEP, AGAIN },
		[FULL] = { 0, REFUSE },
		[OVER] = { GIVE | KEEP, AGAIN },
		[STOP] = { GIVE, REFUSE },
		[HUNG] = { GIVE, GO },
	},
};
/* clang-format on */

#endif
