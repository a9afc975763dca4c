/*
 * Earliest deadline first, brought to a few priorities (PDQ, SIGCOMM'12, serves the flow whose deadline is nearest
 * first of all): the priority of a flow from the time that it has left. Knows nothing of clocks, sizes or sockets.
 *
 * Priority 0 is for the last step_us before the deadline, and each later one begins where twice as much time is left:
 * what counts is how urgent flows are beside each other, and 8 priorities then span a factor of 64. Within a priority
 * the switch's order decides. A flow whose deadline has passed is served last. PDQ drops such a flow at its sender
 * (Early Termination), so that it takes nothing from those that can still be in time; an application that knows of no
 * dropping gets its bytes through where nobody else wants to.
 * Invariant: while its deadline lies ahead a flow only moves earlier.
 */
#ifndef QCLIMB_DEADLINE_H
#define QCLIMB_DEADLINE_H

#include <stdint.h>

#include "priority.h"

/* left_us: until the deadline; 0: it has passed. step_us > 0. */
static inline uint32_t qclimb_deadline_priority(uint32_t step_us, uint32_t priorities, uint64_t left_us)
{
	const uint32_t last = priorities ? priorities - 1 : 0;
	uint64_t end_us = step_us; /* of the priority looked at */
	uint32_t p = 0;

	if (!left_us)
		return last;
	while (p < last && p < QCLIMB_MAX_PRIORITIES && left_us > end_us) {
		end_us = qclimb_add_bytes(end_us, end_us);
		p++;
	}
	return p;
}

#endif
