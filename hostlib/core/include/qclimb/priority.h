/*
 * QCLIMB's Algorithm 1 (NSDI'24, section 3.1; DESIGN.md 3.1): the priority of a flow's next byte, from the bytes sent and
 * the forecast interval of the flow's size. Knows nothing of sockets, policies, clocks or where the forecast came from.
 *
 * PIAS is the setting L = 0, S = 0, U = infinity; QCLIMB-PS is L = U = size, S = 0.
 * Invariant: with fixed bounds a flow's priority only moves earlier while B < L, and only later once B >= L + S.
 */
#ifndef QCLIMB_PRIORITY_H
#define QCLIMB_PRIORITY_H

#include <stdint.h>

#define QCLIMB_MAX_PRIORITIES 64
#define QCLIMB_UNKNOWN_BYTES UINT64_MAX /* an upper bound that nobody knows; also "never" as a byte offset */

/* The forecast of one flow's size, in bytes of the flow. */
struct qclimb_bounds {
	uint64_t lower_bytes; /* L: 0 if unknown */
	uint64_t upper_bytes; /* U: QCLIMB_UNKNOWN_BYTES if unknown */
	uint64_t slack_bytes; /* S: sent at priority 0 past L, before the flow counts as larger than forecast */
};

/* a + b, or the largest number where that does not fit: bounds stay ordered. */
static inline uint64_t qclimb_add_bytes(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/*
 * The last priority whose threshold is <= bytes. threshold_bytes[p] is where priority p begins: strictly ascending, [0] is 0
 * (never read); the order makes this scan from the front find what the paper's scan from the back finds.
 */
static inline uint32_t qclimb_priority_of(const uint64_t *threshold_bytes, uint32_t priorities, uint64_t bytes)
{
	uint32_t p = 1;

	while (p < QCLIMB_MAX_PRIORITIES && p < priorities && threshold_bytes[p] <= bytes)
		p++;
	return p - 1;
}

/*
 * The priority of the byte at offset sent_bytes (B). demotion_bytes is what a flow past its lower bound and slack is demoted by:
 * B in the paper, max(B, footprint) in qclimb.
 */
static inline uint32_t qclimb_priority(const uint64_t *threshold_bytes, uint32_t priorities,
				       const struct qclimb_bounds *bounds, uint64_t sent_bytes, uint64_t demotion_bytes)
{
	if (sent_bytes < bounds->lower_bytes)
		return qclimb_priority_of(threshold_bytes, priorities, bounds->lower_bytes - sent_bytes);
	if (sent_bytes < qclimb_add_bytes(bounds->lower_bytes, bounds->slack_bytes))
		return 0;
	if (sent_bytes < bounds->upper_bytes)
		return qclimb_priority_of(threshold_bytes, priorities, demotion_bytes);
	return priorities ? priorities - 1 : 0;
}

/*
 * An offset > sent_bytes before which the priority cannot change, and at which it may; QCLIMB_UNKNOWN_BYTES if there is none.
 * One jump of qclimb_next_change.
 */
static inline uint64_t qclimb_next_edge(const uint64_t *threshold_bytes, uint32_t priorities,
					const struct qclimb_bounds *bounds, uint64_t sent_bytes,
					uint64_t footprint_bytes)
{
	const uint64_t slack_end = qclimb_add_bytes(bounds->lower_bytes, bounds->slack_bytes);
	uint32_t p;

	if (sent_bytes < bounds->lower_bytes) {
		p = qclimb_priority_of(threshold_bytes, priorities, bounds->lower_bytes - sent_bytes);
		/* Priority p lasts while L - B >= its threshold. */
		return p ? bounds->lower_bytes - threshold_bytes[p] + 1 : bounds->lower_bytes;
	}
	if (sent_bytes < slack_end)
		return slack_end;
	if (sent_bytes < bounds->upper_bytes) {
		p = qclimb_priority_of(threshold_bytes, priorities,
				       sent_bytes > footprint_bytes ? sent_bytes : footprint_bytes) +
		    1;
		if (p < QCLIMB_MAX_PRIORITIES && p < priorities && threshold_bytes[p] < bounds->upper_bytes)
			return threshold_bytes[p];
		return bounds->upper_bytes;
	}
	return QCLIMB_UNKNOWN_BYTES;
}

/*
 * The smallest offset > sent_bytes at which the priority is not that at sent_bytes, if bounds and footprint stay as they are;
 * QCLIMB_UNKNOWN_BYTES if it never changes. footprint_bytes: demotion goes by max(B, footprint); 0 for the paper's rule.
 * At most the ends of the climb, of the slack, of one threshold's range and of the upper bound are looked at: 4 jumps.
 */
static inline uint64_t qclimb_next_change(const uint64_t *threshold_bytes, uint32_t priorities,
					  const struct qclimb_bounds *bounds, uint64_t sent_bytes,
					  uint64_t footprint_bytes)
{
	const uint32_t now = qclimb_priority(threshold_bytes, priorities, bounds, sent_bytes,
					     sent_bytes > footprint_bytes ? sent_bytes : footprint_bytes);
	uint64_t edge = sent_bytes;

	for (int jump = 0; jump < 4; jump++) {
		edge = qclimb_next_edge(threshold_bytes, priorities, bounds, edge, footprint_bytes);
		if (edge == QCLIMB_UNKNOWN_BYTES)
			break;
		if (qclimb_priority(threshold_bytes, priorities, bounds, edge,
				    edge > footprint_bytes ? edge : footprint_bytes) != now)
			return edge;
	}
	return QCLIMB_UNKNOWN_BYTES;
}

#endif
