/*
 * Priority <-> what packets and sockets carry. The DSCP of each priority is a list that the policy gives, served-first
 * first. Knows nothing of sockets. Invariant: the two ECN bits of the ToS byte are never ours.
 */
#ifndef QCLIMB_WIRE_H
#define QCLIMB_WIRE_H

#include <stdint.h>

#define QCLIMB_NO_PRIORITY UINT32_MAX
#define QCLIMB_DEFAULT_DSCPS 8 /* priorities that the default list covers */

/* DSCP of `priority`; one past the list gets the last-served one's. `priorities` entries, 1 to 64. */
static inline uint8_t qclimb_dscp_of(const uint8_t *dscp, uint32_t priorities, uint32_t priority)
{
	if (priority >= priorities)
		priority = priorities - 1;
	return dscp[priority & 63] & 63;
}

/* The priority that a packet's DSCP stands for; QCLIMB_NO_PRIORITY if it is none of ours. */
static inline uint32_t qclimb_priority_of_dscp(const uint8_t *dscp, uint32_t priorities, uint8_t value)
{
	for (uint32_t p = 0; p < 64 && p < priorities; p++)
		if (dscp[p] == value)
			return p;
	return QCLIMB_NO_PRIORITY;
}

/* The ToS or traffic-class byte that carries `dscp`, with the ECN bits of `old_tos`. */
static inline uint8_t qclimb_tos(uint8_t dscp, uint8_t old_tos)
{
	return (uint8_t)((dscp & 63) << 2 | (old_tos & 3));
}

/* SO_PRIORITY of a socket: 6 is served first on the host and the largest that needs no rights. */
static inline uint32_t qclimb_so_priority(uint32_t priority)
{
	return 6 - (priority < 6 ? priority : 6);
}

/*
 * The default list, for at most QCLIMB_DEFAULT_DSCPS priorities: 47, 43, ..., 19: RFC 2474's pool 2 (local use), in
 * descending IP precedence, clear of SONiC's 3, 4 (lossless), 46 and 48.
 */
static inline uint8_t qclimb_default_dscp(uint32_t priority)
{
	return (uint8_t)(47 - 4 * (priority < QCLIMB_DEFAULT_DSCPS ? priority : QCLIMB_DEFAULT_DSCPS - 1));
}

#endif
