/*
 * What the system calls prove about a flow's size, joined with what a forest foretold: the bounds and
 * the footprint that Algorithm 1 runs on. Plain state of one flow and pure functions; knows nothing of sockets.
 *
 * The footprint F is what the application has asked to send so far, the call in progress included, so the size is at
 * least F.
 *  - Until the flow's first byte is ACKed, L = max(L_forest, F): one large write, a header and body, a sendfile with a
 *    count have an almost exact size for nothing, start late-served and climb. Then L is fixed: were it to grow on, a
 *    20 MB flow written in 64 KB pieces would stay at priority 0 to its end.
 *  - Afterwards F raises only U, and demotion goes by max(B, F) (OPTAX's "sent + backlogged"): a stream sinks sooner.
 *  - Slack belongs to the forest's L: priority 0 lasts to L_forest + S at most, unless the footprint's L lies beyond.
 *  - Where the application tells the size itself, L = U = that, without slack, and the forest has no say.
 *  - Nor has it where the message announced its own length (length.h): that is L, and U where such lengths were seen
 *    exact. Where more was asked for, the length was another message's, and counts for nothing.
 *  - A flow whose L lies within one burst (TCP's initial window) can't climb: it is out before an ACK could let it
 *    drain. It is sent as PIAS would, the mirror image of its climb: as many bytes at each priority, first-served ones
 *    first, and it never overtakes itself. Kept at the priority of its whole size it would wait longest with every
 *    byte.
 * Invariant: L never grows once fixed, F and U never shrink, L <= U.
 */
#ifndef QCLIMB_FOOTPRINT_H
#define QCLIMB_FOOTPRINT_H

#include <stdint.h>

#include "policy.h"
#include "priority.h"

#define QCLIMB_BURST_BYTES 14600 /* RFC 6928's initial window: ten segments of 1460 bytes */

struct qclimb_footprint {
	uint64_t asked_bytes; /* F */
	uint64_t fixed_lower_bytes; /* F when the first byte was ACKed; valid once is_fixed */
	struct {
		uint64_t lower_bytes, upper_bytes;
	} foretold; /* the forest's, the application's or its bytes' L and U; valid if has_forest, has_hint, has_length */
	uint8_t is_fixed;
	uint8_t has_forest;
	uint8_t has_hint; /* L and U are the application's word */
	uint8_t has_length; /* they are what its bytes announced */
	uint32_t deadline_tick; /* of the application, in the caller's clock, for deadline.h; 0: none */
};

/* What Algorithm 1 needs for one flow, now. */
struct qclimb_flow_rule {
	struct qclimb_bounds bounds;
	uint64_t footprint_bytes; /* demotion goes by max(B, this); 0 where it goes by B */
};

/* A flow of which nothing is known. */
static inline void qclimb_footprint_start(struct qclimb_footprint *flow)
{
	flow->asked_bytes = 0;
	flow->fixed_lower_bytes = 0;
	flow->foretold.lower_bytes = 0;
	flow->foretold.upper_bytes = QCLIMB_UNKNOWN_BYTES;
	flow->is_fixed = 0;
	flow->has_forest = 0;
	flow->has_hint = 0;
	flow->has_length = 0;
	flow->deadline_tick = 0;
}

/* The forest's forecast. Where lower > upper, or the application knows better, the flow stays without. */
static inline void qclimb_footprint_foretell(struct qclimb_footprint *flow, uint64_t lower_bytes, uint64_t upper_bytes)
{
	if (lower_bytes > upper_bytes || flow->has_hint)
		return;
	flow->foretold.lower_bytes = lower_bytes;
	flow->foretold.upper_bytes = upper_bytes;
	flow->has_forest = 1;
}

/* The application's own word: the flow has exactly size_bytes. */
static inline void qclimb_footprint_tell(struct qclimb_footprint *flow, uint64_t size_bytes)
{
	flow->foretold.lower_bytes = size_bytes;
	flow->foretold.upper_bytes = size_bytes;
	flow->has_forest = 0;
	flow->has_length = 0;
	flow->has_hint = 1;
}

/* What its first bytes announced: the flow has announced_bytes at least, and no more if that is exact. */
static inline void qclimb_footprint_announce(struct qclimb_footprint *flow, uint64_t announced_bytes, int is_exact)
{
	if (flow->has_hint)
		return;
	flow->foretold.lower_bytes = announced_bytes;
	flow->foretold.upper_bytes = is_exact ? announced_bytes : QCLIMB_UNKNOWN_BYTES;
	flow->has_forest = 0;
	flow->has_length = 1;
}

/*
 * The application asks to send call_bytes, after accepted_bytes of this flow that earlier calls took: the rest of a
 * short write that is asked for again counts once. first_byte_acked: as seen just before this call; from the first 1 on
 * L no longer grows.
 */
static inline void qclimb_footprint_ask(struct qclimb_footprint *flow, uint64_t accepted_bytes, uint64_t call_bytes,
					int first_byte_acked)
{
	const uint64_t asked_bytes = qclimb_add_bytes(accepted_bytes, call_bytes);

	if (first_byte_acked && !flow->is_fixed) {
		flow->fixed_lower_bytes = flow->asked_bytes;
		flow->is_fixed = 1;
	}
	if (asked_bytes > flow->asked_bytes)
		flow->asked_bytes = asked_bytes;
}

/* The rule for this flow under a policy. Modes other than QCLIMB_FULL see PIAS. */
static inline struct qclimb_flow_rule qclimb_flow_rule_of(const struct qclimb_policy *policy,
							  const struct qclimb_footprint *flow)
{
	struct qclimb_flow_rule rule;
	const int forest = policy->mode == QCLIMB_FULL && policy->flags & QCLIMB_USE_FOREST && flow->has_forest;
	const int length = policy->mode == QCLIMB_FULL && !(policy->flags & QCLIMB_WITHOUT_LENGTHS) &&
			   flow->has_length && flow->foretold.lower_bytes >= flow->asked_bytes;
	const int is_foretold = forest || length || (policy->mode == QCLIMB_FULL && flow->has_hint);
	const int footprint = policy->mode == QCLIMB_FULL && policy->flags & QCLIMB_USE_FOOTPRINT;
	const uint64_t proven_bytes = !footprint ? 0 : flow->is_fixed ? flow->fixed_lower_bytes : flow->asked_bytes;

	rule.bounds.lower_bytes = is_foretold ? flow->foretold.lower_bytes : 0;
	rule.bounds.upper_bytes = is_foretold ? flow->foretold.upper_bytes : QCLIMB_UNKNOWN_BYTES;
	rule.bounds.slack_bytes = forest ? policy->slack_bytes : 0;
	rule.footprint_bytes = footprint ? flow->asked_bytes : 0;
	if (proven_bytes > rule.bounds.lower_bytes) {
		const uint64_t raised_bytes = proven_bytes - rule.bounds.lower_bytes;

		rule.bounds.lower_bytes = proven_bytes;
		rule.bounds.slack_bytes =
			rule.bounds.slack_bytes > raised_bytes ? rule.bounds.slack_bytes - raised_bytes : 0;
	}
	if (rule.footprint_bytes > rule.bounds.upper_bytes)
		rule.bounds.upper_bytes = rule.footprint_bytes;
	if (rule.bounds.lower_bytes <= QCLIMB_BURST_BYTES) {
		rule.bounds.lower_bytes = 0; /* slack stays: it forgives a forest that said too little */
		if (rule.footprint_bytes <= QCLIMB_BURST_BYTES)
			rule.footprint_bytes = 0;
	}
	return rule;
}

/* The priority of the flow's byte at offset sent_bytes. */
static inline uint32_t qclimb_flow_priority(const struct qclimb_policy *policy, const struct qclimb_flow_rule *rule,
					    uint64_t sent_bytes)
{
	return qclimb_priority(policy->threshold_bytes, policy->priorities, &rule->bounds, sent_bytes,
			       sent_bytes > rule->footprint_bytes ? sent_bytes : rule->footprint_bytes);
}

/* The next offset with another priority: where a write is split. QCLIMB_UNKNOWN_BYTES: never, under this rule. */
static inline uint64_t qclimb_flow_next_change(const struct qclimb_policy *policy, const struct qclimb_flow_rule *rule,
					       uint64_t sent_bytes)
{
	return qclimb_next_change(policy->threshold_bytes, policy->priorities, &rule->bounds, sent_bytes,
				  rule->footprint_bytes);
}

#endif
