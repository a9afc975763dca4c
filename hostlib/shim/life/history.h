/*
 * What this process remembers of finished flows with the same service: sizes and the end of the last one. A forest's
 * features 1 to 6. A fixed table by (peer address, service port, role); the least recently used of four entries gives
 * way. Without a lock: threads that meet in an entry may mix two flows' sizes, which costs a forecast and nothing else.
 */
#ifndef QCLIMB_HISTORY_H
#define QCLIMB_HISTORY_H

#include "socket/connection.h"

/* Fills gap_us and last_sizes of the flow that starts now. */
void history_recall(struct connection *connection);

/*
 * Takes in a flow that is finished, its size and last_write_ns, and fills what the next one is told if it starts `now`.
 */
void history_turn(struct connection *connection, uint64_t size_bytes, uint64_t now);

/*
 * A size in 32 bits: 27 of mantissa above 5 of exponent. Exact below 128 MiB, cut off above to 27 bits: more than the
 * 24 that a forest sees.
 */
static inline uint32_t size_pack(uint64_t bytes)
{
	uint32_t exponent = 0;

	if (bytes >> 27)
		exponent = 64 - 27 - (uint32_t)__builtin_clzll(bytes);
	if (exponent > 31)
		return UINT32_MAX;
	return (uint32_t)(bytes >> exponent) << 5 | exponent;
}

static inline uint64_t size_unpack(uint32_t packed)
{
	return (uint64_t)(packed >> 5) << (packed & 31);
}

#endif
