/*
 * QCLIMB's Algorithm 1 (NSDI'24, section 3.1; DESIGN.md 3.1): the priority of a flow's next byte, from the bytes sent
 * and the forecast interval of the flow's size. Knows nothing of sockets, policies or clocks.
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

/* 1 if a <= b, else 0, without a branch: the borrow of b - a (Hacker's Delight 2-13). */
static inline uint64_t qclimb_at_most(uint64_t a, uint64_t b)
{
	uint64_t borrow = ((~b & a) | ((~b | a) & (b - a))) >> 63;

#ifdef __bpf__
	__asm__("" : "+r"(borrow)); /* else clang sees through it and makes a branch again */
#endif
	return borrow ^ 1;
}

/* The larger one, without a branch. */
static inline uint64_t qclimb_larger(uint64_t a, uint64_t b)
{
	const uint64_t is_b = 0 - qclimb_at_most(a, b);

	return (a & ~is_b) | (b & is_b);
}

#define QCLIMB_LATE_LEAST_BYTES UINT64_C(4096)
#define QCLIMB_LATE_MOST_BYTES UINT64_C(65536)

/*
 * A demotion comes at most about so late: as long as its threshold is far, within these bounds. A flow that is over so
 * soon after a threshold is not demoted there: its last bytes alone would wait in the later queue, and all of it with
 * them.
 */
static inline uint64_t qclimb_late_bytes(uint64_t threshold_bytes)
{
	return threshold_bytes < QCLIMB_LATE_LEAST_BYTES  ? QCLIMB_LATE_LEAST_BYTES
	       : threshold_bytes > QCLIMB_LATE_MOST_BYTES ? QCLIMB_LATE_MOST_BYTES
							  : threshold_bytes;
}

/*
 * The same from the flow's end: what demotes it where asked_bytes are known of it is at most this, the largest threshold
 * t with t + qclimb_late_bytes(t) < asked_bytes; 0: there is none.
 */
static inline uint64_t qclimb_demoting_bytes(uint64_t asked_bytes)
{
	const uint64_t least = (asked_bytes - QCLIMB_LATE_LEAST_BYTES - 1) &
			       (0 - qclimb_at_most(QCLIMB_LATE_LEAST_BYTES + 1, asked_bytes));
	const uint64_t most = (asked_bytes - QCLIMB_LATE_MOST_BYTES - 1) &
			      (0 - qclimb_at_most(QCLIMB_LATE_MOST_BYTES + 1, asked_bytes));
	const uint64_t far = qclimb_larger((asked_bytes - qclimb_at_most(1, asked_bytes)) / 2, most);

	return least + far - qclimb_larger(least, far);
}

/*
 * The last priority whose threshold is <= bytes. threshold_bytes[p] is where priority p begins: strictly ascending, [0]
 * is 0; entries from `priorities` on are not read. The order makes this halving search find what the paper's scan from
 * the last one up finds. No branch depends on the flow: the kernel's verifier would follow each to the end of the
 * program, 64 ways.
 */
static inline uint32_t qclimb_priority_of(const uint64_t *threshold_bytes, uint32_t priorities, uint64_t bytes)
{
	uint64_t found = 0;

	for (uint64_t step = QCLIMB_MAX_PRIORITIES / 2; step; step >>= 1) {
		const uint64_t p = (found + step) & (QCLIMB_MAX_PRIORITIES - 1);
		const uint64_t exists = qclimb_at_most(p + 1, priorities);

		found += step * (exists & qclimb_at_most(threshold_bytes[p & (0 - exists)], bytes));
	}
	return (uint32_t)found;
}

/*
 * The priority of the byte at offset sent_bytes (B). demotion_bytes is what a flow past its lower bound and slack is
 * demoted by: B in the paper, max(B, footprint) in qclimb.
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
 * The smallest offset > sent_bytes at which the priority is not that at sent_bytes, if bounds and footprint stay as
 * they are; QCLIMB_UNKNOWN_BYTES if it never changes. footprint_bytes: demotion goes by max(B, footprint); 0 for the
 * paper's rule.
 */
static inline uint64_t qclimb_next_change(const uint64_t *threshold_bytes, uint32_t priorities,
					  const struct qclimb_bounds *bounds, uint64_t sent_bytes,
					  uint64_t footprint_bytes)
{
	const uint64_t slack_end = qclimb_add_bytes(bounds->lower_bytes, bounds->slack_bytes);
	const int is_before = sent_bytes < slack_end; /* demotion has yet to begin, at slack_end */
	const uint64_t from = is_before ? slack_end : sent_bytes;
	uint32_t now = 0, p;

	if (sent_bytes < bounds->lower_bytes) {
		now = qclimb_priority_of(threshold_bytes, priorities, bounds->lower_bytes - sent_bytes);
		/* It lasts while L - B >= its threshold: with a threshold of 1 to L, where another rule begins. */
		p = now & (QCLIMB_MAX_PRIORITIES - 1);
		if (p && threshold_bytes[p] > 1)
			return bounds->lower_bytes - threshold_bytes[p] + 1;
		if (p && bounds->slack_bytes)
			return bounds->lower_bytes;
	}
	if (from >= bounds->upper_bytes)
		return is_before && now + 1 < priorities ? from : QCLIMB_UNKNOWN_BYTES;
	p = qclimb_priority_of(threshold_bytes, priorities, from > footprint_bytes ? from : footprint_bytes);
	if (is_before && p != now)
		return from;
	if (++p >= QCLIMB_MAX_PRIORITIES || p >= priorities)
		return QCLIMB_UNKNOWN_BYTES;
	return threshold_bytes[p] < bounds->upper_bytes ? threshold_bytes[p] : bounds->upper_bytes;
}

#endif
