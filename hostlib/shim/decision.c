#include "decision.h"

#include <qclimb/deadline.h>

#include "drain.h"
#include "log.h"
#include "mark.h"
#include "tagger.h"

/*
 * A promotion costs a drain: about a round trip in which the path stays empty. It is made where at least this many
 * times the bytes that fit into that time follow at the new priority: then climbing costs a flow a fifth of its time at
 * most. Otherwise it is put off to the next one, and left out near the end of what is certain to follow.
 */
#define PROMOTION_PAYS 4

/* The first offset past `from` at which the flow is demoted below the priority it has. */
static uint64_t next_demotion(const struct qclimb_policy *policy, const struct qclimb_flow_rule *rule, uint64_t from,
			      uint32_t priority)
{
	do
		from = qclimb_flow_next_change(policy, rule, from);
	while (from != QCLIMB_UNKNOWN_BYTES && qclimb_flow_priority(policy, rule, from) <= priority);
	return from;
}

/* Whether a promotion at this offset is worth its drain; if not, *until is where to look again. */
static bool promotion_pays(struct connection *connection, int fd, const struct qclimb_policy *policy,
			   const struct qclimb_flow_rule *rule, uint32_t wanted, uint64_t *until)
{
	const uint64_t sent = connection->sent_bytes;
	const uint64_t certain = qclimb_add_bytes(rule->bounds.lower_bytes, rule->bounds.slack_bytes);
	const uint64_t least = PROMOTION_PAYS * drain_cost_bytes(connection, fd);
	const uint64_t next = qclimb_flow_next_change(policy, rule, sent);

	if (sent >= certain || certain - sent < least) {
		*until = next_demotion(policy, rule, sent, connection->priority);
		LOG("fd=%d no promotion at=%llu: %llu bytes are certain to follow, pays from %llu", fd,
		    (unsigned long long)sent, (unsigned long long)(sent < certain ? certain - sent : 0),
		    (unsigned long long)least);
		return false;
	}
	if (next != QCLIMB_UNKNOWN_BYTES && next - sent < least && qclimb_flow_priority(policy, rule, next) < wanted) {
		LOG("fd=%d no promotion at=%llu: the next is at=%llu, pays from %llu", fd, (unsigned long long)sent,
		    (unsigned long long)next, (unsigned long long)least);
		*until = next;
		return false;
	}
	return true;
}

/* A flow with a deadline is written in pieces of what the path carries in a round trip, a burst at the least. */
static uint64_t piece_bytes(struct connection *connection, int fd)
{
	const uint64_t bytes = drain_cost_bytes(connection, fd);

	return bytes > QCLIMB_BURST_BYTES ? bytes : QCLIMB_BURST_BYTES;
}

/*
 * Whether the flow goes beyond this offset, for all that is known: its end would come no sooner by a drain before it.
 */
static bool has_more_than(const struct connection *connection, uint64_t offset)
{
	const struct qclimb_footprint *flow = &connection->footprint;

	return flow->asked_bytes > offset || (flow->has_hint && flow->foretold.lower_bytes > offset);
}

/*
 * The priority of a flow with a deadline. Time goes on while the kernel's buffer holds bytes, so it is asked for anew
 * with each piece, once what came before is transmitted (false: it is not). After the deadline nothing changes any
 * more.
 */
static bool decide_by_time(struct connection *connection, int fd, const struct qclimb_policy *policy, enum ready ready,
			   uint64_t now, uint32_t *wanted, struct decision *decision)
{
	const int32_t left = (int32_t)(connection->footprint.deadline_tick - tick_of(now));

	*wanted = qclimb_deadline_priority(policy->deadline_step_us, policy->priorities,
					   left > 0 ? (uint64_t)left * 1024 / 1000 : 0);
	decision->until_bytes = left > 0 ? connection->sent_bytes + piece_bytes(connection, fd) : UINT64_MAX;
	decision->quiet_bytes = left > 0 ? 0 : UINT64_MAX;
	if (left <= 0 || ready != READY_NOT || !connection->sent_bytes || connection->pending == PENDING_ACK ||
	    is_transmitted(connection, fd))
		return true;
	decision->step = WAIT_TRANSMITTED;
	return false;
}

struct decision decide(struct connection *connection, int fd, const struct rules *rules, enum ready ready, uint64_t now)
{
	const struct qclimb_policy *policy = &rules->policy;
	struct decision decision = { UINT64_MAX, UINT64_MAX, GO, policy->promote_wait_us * QCLIMB_NS_PER_US };
	const bool has_deadline =
		policy->mode == QCLIMB_FULL && policy->deadline_step_us && connection->footprint.deadline_tick;
	struct qclimb_flow_rule rule;
	uint32_t wanted;

	if (policy->mode < QCLIMB_PIAS || connection->is_released) {
		if (!connection->is_released)
			mark_nothing(connection, fd);
		if (policy->mode == QCLIMB_OBSERVE && !connection->footprint.is_fixed)
			decision.quiet_bytes = 0; /* what is asked for before the first ACK is told in the record */
		return decision;
	}
	rule = qclimb_flow_rule_of(policy, &connection->footprint);
	wanted = qclimb_flow_priority(policy, &rule, connection->sent_bytes);
	decision.until_bytes = qclimb_flow_next_change(policy, &rule, connection->sent_bytes);
	decision.quiet_bytes = decision.until_bytes;
	if (policy->mode == QCLIMB_FULL && !connection->footprint.is_fixed &&
	    rule.bounds.lower_bytes < decision.quiet_bytes) {
		/* A write beyond L may raise it, but not within the calm bytes. */
		const uint64_t calm = calm_end(calm_of(policy), 0);
		const uint64_t quiet = rule.bounds.lower_bytes > calm ? rule.bounds.lower_bytes : calm;

		decision.quiet_bytes = quiet < decision.quiet_bytes ? quiet : decision.quiet_bytes;
	}
	if (has_deadline) {
		tagger_forget(connection, fd); /* it knows bytes, not time */
	} else if (tagger_takes(connection, fd, &rule)) {
		if (connection->pending == PENDING_PUT_OFF)
			connection->pending = PENDING_NONE;
		mark_nothing(connection, fd);
		decision.until_bytes = UINT64_MAX;
		return decision;
	}
	if (has_deadline && !decide_by_time(connection, fd, policy, ready, now, &wanted, &decision))
		return decision;

	if (ready == READY_PUT_OFF) {
		decision.quiet_bytes = 0;
		return decision;
	}
	if (wanted < connection->priority && connection->dscp < DSCP_UNKNOWN) {
		uint64_t until;

		if (ready == READY_NEVER) {
			connection->kept_bytes = decision.until_bytes;
			drain_release(connection, fd);
		}
		if (ready != READY_DRAINED && unacked_bytes(fd) != 0) {
			if (connection->pending == PENDING_ACK) {
				decision.step = WAIT_DRAINED; /* decided already */
				return decision;
			}
			if (connection->sent_bytes < connection->kept_bytes) {
				decision.quiet_bytes = 0; /* a later call may find everything ACKed */
				return decision;
			}
			if (has_deadline && !has_more_than(connection, decision.until_bytes))
				return decision;
			if (!has_deadline && !promotion_pays(connection, fd, policy, &rule, wanted, &until)) {
				decision.until_bytes = until;
				if (until < decision.quiet_bytes || connection->footprint.is_fixed)
					decision.quiet_bytes = until;
				return decision;
			}
			decision.step = WAIT_DRAINED;
			return decision;
		}
		connection->record.promotions++;
	} else if (wanted > connection->priority && connection->dscp < DSCP_UNKNOWN) {
		if (ready == READY_NOT && !is_transmitted(connection, fd)) {
			decision.step = WAIT_TRANSMITTED;
			return decision;
		}
		connection->record.demotions++;
	}
	if (connection->pending == PENDING_PUT_OFF)
		connection->pending = PENDING_NONE;
	if (!mark(connection, fd, policy, wanted))
		connection->quiet_bytes = 0;
	return decision;
}

void demote_transmitted(struct connection *connection, int fd, const struct rules *rules)
{
	const struct qclimb_policy *policy = &rules->policy;
	const uint64_t sent = relaxed_get(connection->sent_bytes);
	const int unsent = unsent_bytes(fd);
	struct qclimb_flow_rule rule;
	uint32_t wanted;

	if (policy->mode < QCLIMB_PIAS || !connection->is_open || connection->is_released || connection->is_tagged ||
	    connection->footprint.deadline_tick || connection->dscp >= DSCP_UNKNOWN || unsent < 0 ||
	    (uint64_t)unsent > sent)
		return;
	rule = qclimb_flow_rule_of(policy, &connection->footprint);
	wanted = qclimb_flow_priority(policy, &rule, sent - (uint64_t)unsent);
	if (wanted <= connection->priority)
		return;
	connection->record.demotions++;
	(void)mark(connection, fd, policy, wanted);
}
