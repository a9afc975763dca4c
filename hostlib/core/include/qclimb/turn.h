/*
 * Where a flow begins (DESIGN.md, section 2), decided at a write. Knows nothing of sockets: positions count the bytes
 * of one direction of a connection.
 *
 * A write begins a flow where the flow before is over: every earlier byte is ACKed, and since the last write the
 * application read something, or paused for longer than the gap. A call of which the kernel took a part only goes on,
 * however late its rest comes.
 */
#ifndef QCLIMB_TURN_H
#define QCLIMB_TURN_H

#include <stdint.h>

/* A connection's direction as it is seen when the application asks to write. */
struct qclimb_turn {
	uint64_t written; /* position of the call's first byte */
	uint64_t asked; /* position at which the calls before end, had the kernel taken all of them */
	uint64_t idle_ns; /* since the last write */
	uint64_t gap_ns; /* a longer pause begins a flow */
	int is_acked; /* all before `written` */
	int has_read; /* the application, since the last write */
};

static inline int qclimb_begins_flow(const struct qclimb_turn *turn)
{
	if (turn->written < turn->asked || !turn->is_acked)
		return 0;
	return turn->has_read || turn->idle_ns > turn->gap_ns;
}

#endif
