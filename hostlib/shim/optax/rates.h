/*
 * What a host receives, and how fast (OPTAX's buffer monitor): bytes by who receives them, rates over some samples, and
 * from those the window of the head's flows (Algorithm 2) and what those behind it may count on (Algorithm 3). Lies in
 * memory that processes share; knows nothing of tasks, places or sockets.
 * Invariant: lock-free; each sample has one writer, whoever moves sampled_ns on.
 */
#ifndef QCLIMB_RATES_H
#define QCLIMB_RATES_H

#include "base/shim.h"

#include <qclimb/coflow.h>

#define RATES_FIRST_WINDOW 10u /* segments: as a sender's initial window, RFC 6928 */
#define RATES_COUNT_NS (100 * QCLIMB_NS_PER_MS) /* large flows are counted in */
#define RATES_FULL_NS (20 * QCLIMB_NS_PER_MS) /* a link that was full is for so long */
#define RATES_SLACK_NS (100 * QCLIMB_NS_PER_MS) /* and one that had slack may have it for so long */
#define RATES_LARGE_NS (100 * QCLIMB_NS_PER_MS) /* large flows have less for so long after it was full */
#define RATES_SEEN_SAMPLES 2u /* one after another: an application's burst is over after the first */
#define RATES_SAMPLE_NS (5 * QCLIMB_NS_PER_MS) /* rates are measured over, and Algorithm 2 acts every */

enum line_flow {
	LINE_OTHERS, /* not in line, nor large: short, or left alone */
	LINE_LARGE,
	LINE_HEADS,
	LINE_BEHIND,
	LINE_FLOWS
};

/* Rates in bytes a second. */
struct rates {
	_Atomic uint64_t sampled_ns;
	_Atomic uint64_t bytes[LINE_FLOWS]; /* received since ever, */
	_Atomic uint64_t sampled[LINE_FLOWS]; /* and until the last sample */
	_Atomic uint64_t smooth_head, smooth_large, smooth_before, smooth_sum; /* over the last samples */
	_Atomic uint64_t before; /* what comes before those behind; the capacity where the link is full */
	_Atomic uint64_t peak; /* the most that was ever received in a sample: what the link can, if nobody says it */
	_Atomic uint64_t full_ns; /* when the link was last seen to be full; 0: never */
	_Atomic uint64_t room_ns; /* since when it was not */
	_Atomic uint64_t slack_ns; /* when it last carried less than half, */
	_Atomic uint32_t slack_flows; /* of so many flows in line */
	_Atomic uint32_t full_samples, slack_samples; /* one after another */
	_Atomic uint32_t steady_samples; /* learned: in which the peak was reached and hardly passed */
	_Atomic uint32_t window; /* of the head's flows, segments */
	_Atomic uint32_t larges; /* large flows that were read in the RATES_COUNT_NS before these, */
	_Atomic uint32_t larges_now; /* and since */
	_Atomic uint32_t counted; /* the number of these */
	_Atomic uint32_t large_window; /* of large flows, segments; 0: the kernel's own */
};

static inline bool is_past(uint64_t now, uint64_t then, uint64_t ns)
{
	return now > then && now - then > ns;
}

static inline void rates_received(struct rates *rates, enum line_flow flow, uint64_t bytes)
{
	atomic_fetch_add_explicit(&rates->bytes[flow], bytes, memory_order_relaxed);
}

/* told: the link's rate; 0: learned. */
static inline uint64_t rates_capacity(const struct rates *rates, uint64_t told)
{
	return told ? told : relaxed_get(rates->peak);
}

/* Whether it was half empty in the last samples. */
static inline bool rates_have_slack(const struct rates *rates)
{
	return relaxed_get(rates->slack_samples) >= RATES_SEEN_SAMPLES;
}

/* Where RATES_SAMPLE_NS passed since somebody last measured, it is the caller's turn: ns since then; else 0. */
uint64_t rates_due(struct rates *rates, uint64_t now);

/*
 * Measures what came in the last `interval_ns`, while `flows` stand in line; true: the link is now known to have slack,
 * and was not before. Large flows are to have less only while there are such flows and the link was full within
 * RATES_LARGE_NS, and no less than fair sharing would give them.
 */
bool rates_sample(struct rates *rates, uint64_t told, uint32_t flows, uint64_t interval_ns, uint64_t now);

/* What is known of the link now. */
enum qclimb_link rates_link(const struct rates *rates, uint64_t now);

/* A large flow is read. counted: the flow's own, in which RATES_COUNT_NS it was counted last. */
void rates_count_large(struct rates *rates, _Atomic uint32_t *counted, uint64_t now);

#endif
