/*
 * A flow's rule, as it stands at its socket, at one byte of the socket's stream. For BPF only: the tagger's egress, and
 * the kernel mode where no device has one (mark.h).
 */
#ifndef QCLIMB_TAGGER_RULE_H
#define QCLIMB_TAGGER_RULE_H

#include "maps.h"

/* Where the flow is demoted by what was sent, it is so late (qclimb_demoting_bytes), as by the library. */
static __always_inline uint64_t demotion_of(const struct tagger_socket *told, const struct tagger_flow *flow,
					    uint64_t sent)
{
	const uint64_t most = qclimb_demoting_bytes(told->asked_bytes);

	if (flow->footprint_bytes)
		return sent > flow->footprint_bytes ? sent : flow->footprint_bytes;
	return flow == &told->now && most < sent && sent <= told->asked_bytes ? most : sent;
}

static __always_inline uint32_t priority_at(const uint64_t *threshold_bytes, uint32_t priorities,
					    const struct tagger_socket *told, uint64_t position)
{
	const struct tagger_flow *flow = position >= told->now.start ? &told->now : &told->before;
	uint64_t sent, demotion;

	if (position < flow->start)
		return 0;
	sent = position - flow->start;
	demotion = demotion_of(told, flow, sent);
	if (demotion < threshold_bytes[1] && flow->bounds.lower_bytes < threshold_bytes[1] &&
	    sent < flow->bounds.upper_bytes)
		return 0; /* most flows are small */
	return qclimb_priority(threshold_bytes, priorities, &flow->bounds, sent, demotion);
}

#endif
