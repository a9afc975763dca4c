/*
 * The policy and the model in force: read from files into private memory, verified, swapped under running calls.
 * A damaged file changes nothing: the last good generation stays. Invariant: what rules_acquire() gave stays as it is
 * until rules_release(); no reader ever waits, and no reader is waited for.
 */
#ifndef QCLIMB_RULES_H
#define QCLIMB_RULES_H

#include "base/shim.h"

#include <qclimb/footprint.h>
#include <qclimb/forest.h>
#include <qclimb/policy.h>

struct rules {
	atomic_uint readers;
	struct qclimb_policy policy;
	const struct qclimb_forest *forest; /* NULL: none of the policy's generation */
	int model; /* slot of the forest's memory, -1: none */
};

/* `look_too` is called where files are looked for, at start and then. */
void rules_start(void (*look_too)(void));
void rules_after_fork(void);

/* The rules in force at `now`; looks for new files where 200 ms have passed since the last look. */
struct rules *rules_acquire(uint64_t now);
void rules_release(struct rules *rules);

/* Whether the operator decides for this host: hostd is or was here. At start only. */
bool rules_are_managed(void);

/* Of the policy in force. */
extern QCLIMB_OURS _Atomic uint64_t qclimb_rules_generation;

/*
 * Of the policy in force, in one word, for writes that need no more of it: its calm bytes, from a flow's beginning on,
 * short of the first threshold: a flow that has not been asked to send more is served first with every byte, whatever its
 * bounds (priority.h), so that nothing need be known of it; the DSCP of priority 0; the mode. 0 where no packet is marked.
 */
#define CALM_MOST_BYTES 0xffff
extern QCLIMB_OURS _Atomic uint32_t qclimb_rules_calm;
static inline uint32_t rules_calm(void)
{
	return atomic_load_explicit(&qclimb_rules_calm, memory_order_relaxed);
}

uint32_t calm_of(const struct qclimb_policy *policy);

static inline uint64_t calm_bytes(uint32_t calm)
{
	return calm & 0xffff;
}

/*
 * Up to here nothing is asked of a flow that begins at `start`. In mode QCLIMB_FULL a burst more at most: past it the
 * record tells what had been asked for when the first byte was ACKed (footprint.h).
 */
static inline uint64_t calm_end(uint32_t calm, uint64_t start)
{
	const uint64_t end = calm >> 24 == QCLIMB_FULL ? start + QCLIMB_BURST_BYTES : calm_bytes(calm);

	return end < calm_bytes(calm) ? end : calm_bytes(calm);
}

static inline uint8_t calm_dscp(uint32_t calm)
{
	return calm >> 16 & 0xff;
}

static inline uint8_t calm_mode(uint32_t calm)
{
	return (uint8_t)(calm >> 24);
}

/* Of the policy in force: the DSCP of sockets that have nothing to send. Asked by reads. */
extern QCLIMB_OURS _Atomic uint8_t qclimb_rules_rest;
static inline uint8_t rules_rest(void)
{
	return atomic_load_explicit(&qclimb_rules_rest, memory_order_relaxed);
}

/* Whether the first bytes of messages may be looked at (length.h). */
extern QCLIMB_OURS atomic_bool qclimb_rules_heads;
static inline bool rules_heads(void)
{
	return atomic_load_explicit(&qclimb_rules_heads, memory_order_relaxed);
}

/* Whether reads re-arm TCP_QUICKACK: on the path of every read, so kept apart. */
extern QCLIMB_OURS atomic_bool qclimb_rules_quickack;
static inline bool rules_quickack(void)
{
	return atomic_load_explicit(&qclimb_rules_quickack, memory_order_relaxed);
}

#endif
