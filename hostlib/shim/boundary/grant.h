/*
 * How far a writing call may go now: what a look finds (look.h) and what a wait ends with, carried out by the table of
 * step.h. The gate is ours.
 */
#ifndef QCLIMB_GRANT_H
#define QCLIMB_GRANT_H

#include "boundary/look.h"

/* What the pieces of one call share. */
struct cut {
	uint64_t
		patience_ns; /* left for waits in which the kernel has room: other threads wait for the gate meanwhile */
	uint64_t waited_ns; /* for room: SO_SNDTIMEO is the whole call's */
	uint64_t signals; /* held before the call was cut, if is_held */
	bool is_held;
};

/* How many of `left` bytes may be written now; 0 and errno: none. */
size_t grant(struct connection *connection, const struct write_call *call, size_t left, enum known known, uint64_t now,
	     struct cut *cut);

#endif
