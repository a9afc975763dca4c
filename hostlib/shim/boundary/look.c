#include "boundary/look.h"

#include <qclimb/deadline.h>

#include "life/facts.h"
#include "life/history.h"
#include "socket/drain.h"
#include "socket/loans.h"
#include "socket/mark.h"
#include "socket/tagger.h"
#include "socket/worth.h"
#include "socket/written.h"
#include "tell/log.h"

/*
 * So many bytes unsent the boundary of a caller that does not wait may come late: a fresh connection takes no more
 * (10 segments of 4,352 bytes with all that belongs to them, twice, or three times under BBR), so that a program that
 * writes more at once has learned to write the rest. One that chose its buffer has learned its size.
 */
#define PUT_OFF_BYTES 131072
#define WHOLE_BYTES 16384 /* the first size of Linux's send buffer (tcp_wmem, ip-sysctl) */

void look_begins(struct connection *connection)
{
	connection->kept_bytes = 0; /* and tagged_from */
	connection->is_level = false;
}

bool puts_off(const struct connection *connection, int fd, size_t left, bool is_demotion)
{
	const bool is_told = connection->footprint.has_hint || connection->footprint.deadline_tick;

	if (is_told && (uint64_t)unacked_bytes(fd) + left > WHOLE_BYTES)
		return false; /* an application that tells of its flows is written for what it gets */
	if (!has_room(connection, fd, left, true))
		return false;
	if (is_demotion && (uint64_t)unsent_bytes(fd) + left > PUT_OFF_BYTES && !has_own_buffer(connection, fd))
		return false;
	LOG("fd=%d puts off at=%llu", fd, (unsigned long long)flow_bytes(connection));
	return true;
}

/*
 * The kernel takes a write as one where there is room, so that processes that share a connection write whole messages to
 * it: another one's bytes must not come between two pieces of ours. A larger one it takes in pieces, too.
 */
static bool stays_whole(const struct connection *connection, const struct write_call *call, size_t left)
{
	return call->is_whole || connection->is_stamped ||
	       (connection->is_foreign && has_room(connection, call->fd, left, true));
}

/*
 * The rule of the flow under way. One whose climb can't pay for its drain is sent as PIAS would send it, as one of a
 * single burst is (footprint.h): kept at the priority of its whole size it would wait longest with every byte.
 */
static struct qclimb_flow_rule rule_of(const struct connection *connection, const struct qclimb_policy *policy)
{
	struct qclimb_flow_rule rule = qclimb_flow_rule_of(policy, &connection->footprint);

	if (connection->is_level) {
		rule.bounds.lower_bytes = 0;
		rule.footprint_bytes = 0;
	}
	return rule;
}

static uint32_t priority_at(const struct qclimb_policy *policy, const struct qclimb_flow_rule *rule, uint64_t at)
{
	return qclimb_flow_priority(policy, rule, at);
}

static uint64_t certain_bytes(const struct qclimb_flow_rule *rule)
{
	return qclimb_add_bytes(rule->bounds.lower_bytes, rule->bounds.slack_bytes);
}

/*
 * Before a flow sinks to climb later: whether no climb of it will pay, at the rate that the one before on this service
 * reached, if that was of about its size (perhaps more is possible, which makes a climb pay less).
 */
static bool climbs_in_vain(struct connection *connection, int fd, const struct qclimb_policy *policy,
			   const struct qclimb_flow_rule *rule)
{
	const uint64_t sent = flow_bytes(connection), lower = rule->bounds.lower_bytes;
	const uint64_t climb = qclimb_flow_next_change(policy, rule, sent);

	if (sent >= lower || connection->facts.promotions ||
	    priority_at(policy, rule, climb) >= priority_at(policy, rule, sent))
		return false;
	return connection->has_corked || (size_unpack(connection->facts.last_sizes[0]) >= lower / 2 &&
					  !climb_may_pay(connection, fd, certain_bytes(rule) - climb));
}

/* Whether the drain for a promotion pays: for what is certain to follow, and not by the next one as well. */
static bool pays(struct connection *connection, int fd, const struct qclimb_policy *policy,
		 const struct qclimb_flow_rule *rule, uint32_t wanted, uint64_t now)
{
	const uint64_t sent = flow_bytes(connection), certain = certain_bytes(rule);
	const uint64_t next = qclimb_flow_next_change(policy, rule, sent);
	const uint64_t least = sent < certain ? climb_pays_bytes(connection, fd, now) : UINT64_MAX;

	if (sent < certain && certain - sent >= least &&
	    (next == QCLIMB_UNKNOWN_BYTES || next - sent >= least || priority_at(policy, rule, next) >= wanted))
		return true;
	LOG("fd=%d no promotion at=%llu: %llu bytes are certain to follow, pays from %llu", fd,
	    (unsigned long long)sent, (unsigned long long)(sent < certain ? certain - sent : 0),
	    (unsigned long long)least);
	return false;
}

/*
 * How far a call that ends at `end` may be written without a look: to where another priority begins, and past a
 * demotion where it ends soon after.
 */
static uint64_t go_until(const struct qclimb_policy *policy, const struct qclimb_flow_rule *rule, uint64_t from,
			 uint64_t end)
{
	const uint32_t priority = priority_at(policy, rule, from);
	const uint64_t next = qclimb_flow_next_change(policy, rule, from);

	if (next != QCLIMB_UNKNOWN_BYTES && priority_at(policy, rule, next) > priority &&
	    end <= qclimb_add_bytes(next, qclimb_late_bytes(next)))
		return QCLIMB_UNKNOWN_BYTES;
	return next;
}

/*
 * To here nothing need be decided: a write beyond L may raise it while nothing is ACKed, but not within the calm bytes.
 */
static uint64_t quiet_until(const struct connection *connection, const struct qclimb_policy *policy,
			    const struct qclimb_flow_rule *rule)
{
	const uint64_t next = qclimb_flow_next_change(policy, rule, flow_bytes(connection));
	const uint64_t calm = calm_end(calm_of(policy), 0);
	const uint64_t lower = rule->bounds.lower_bytes > calm ? rule->bounds.lower_bytes : calm;

	return policy->mode == QCLIMB_FULL && !connection->footprint.is_fixed && lower < next ? lower : next;
}

/* A flow with a deadline is written in pieces of what the path carries in a round trip, a burst at the least. */
static uint64_t piece_of_time(int fd)
{
	const uint64_t bytes = round_trip_bytes(fd);

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

/* All is ACKed, but for what is held back to go at the new priority. */
static bool is_clear(const struct connection *connection, int fd)
{
	const int unacked = unacked_bytes(fd);

	return unacked == 0 || (lent_state(connection) == HELD && unacked == unsent_bytes(fd));
}

/* Served earlier from here on. */
static enum boundary_event look_up(struct connection *connection, const struct write_call *call, size_t left,
				   enum known known, const struct qclimb_policy *policy,
				   const struct qclimb_flow_rule *rule, const struct look *look, bool has_deadline,
				   uint64_t now)
{
	const enum boundary_state state = lent_state(connection);
	const int fd = call->fd;

	if (known == KNOWN_CLEAR || is_clear(connection, fd))
		return CLEAR;
	if (known == KNOWN_OVER)
		connection->kept_bytes = look->until_bytes;
	if (flow_bytes(connection) < connection->kept_bytes || stays_whole(connection, call, left) ||
	    call->flags & MSG_MORE || (left <= HELD_BYTES && !is_blocking(fd, call->flags)))
		return VAIN; /* bytes are held back only where more must follow: then the application calls again */
	if (state == LENT ||
	    state == HELD) /* decided already; what ends the call is not held back: who would let go? */
		return left > HELD_BYTES ? WORTH : VAIN;
	if (has_deadline ? !has_more_than(connection, look->until_bytes)
			 : !pays(connection, fd, policy, rule, look->priority, now))
		return VAIN;
	return !is_blocking(fd, call->flags) && puts_off(connection, fd, left, false) ? VAIN : WORTH;
}

/* Served later from here on: as far as what was transmitted says. */
static enum boundary_event look_down(const struct connection *connection, const struct write_call *call, size_t left,
				     enum known known, const struct qclimb_policy *policy,
				     const struct qclimb_flow_rule *rule, struct look *look)
{
	const int unsent = unsent_bytes(call->fd);
	const uint64_t sent = flow_bytes(connection);
	const uint64_t gone = unsent > 0 && (uint64_t)unsent <= sent ? sent - (uint64_t)unsent : unsent > 0 ? 0 : sent;
	const uint32_t allowed = priority_at(policy, rule, gone);

	if (known == KNOWN_OVER || allowed >= look->priority)
		return PAST; /* one that comes too early harms nobody */
	look->piece_bytes = (uint32_t)qclimb_late_bytes(qclimb_flow_next_change(policy, rule, gone)) / 2;
	look->priority = allowed > connection->priority ? allowed : connection->priority;
	return stays_whole(connection, call, left) ||
			       (!is_blocking(call->fd, call->flags) && puts_off(connection, call->fd, left, true))
		       ? VAIN
		       : AHEAD;
}

/*
 * Served later and by another spine, with all that went before transmitted: what follows could overtake it, so that the
 * flow waits for the ACKs where the policy says so. Where that can't be, or was in vain, it is demoted at once.
 */
static enum boundary_event look_across(const struct connection *connection, const struct write_call *call, size_t left,
				       enum known known, const struct qclimb_policy *policy, uint32_t priority)
{
	const enum boundary_state state = lent_state(connection);
	const int fd = call->fd;
	const bool is_lent = state == LENT || state == HELD;

	if (known == KNOWN_OVER || !(policy->flags & QCLIMB_DRAIN_PATHS) ||
	    qclimb_policy_shares_path(policy, connection->priority, priority))
		return PAST;
	if (known == KNOWN_CLEAR || is_clear(connection, fd))
		return CLEAR;
	if (stays_whole(connection, call, left) || call->flags & MSG_MORE || left <= HELD_BYTES)
		return is_lent ? VAIN : PAST;
	if (is_lent)
		return WORTH;
	return !is_blocking(fd, call->flags) && puts_off(connection, fd, left, true) ? PAST : WORTH;
}

static enum boundary_event look_later(const struct connection *connection, const struct write_call *call, size_t left,
				      enum known known, const struct qclimb_policy *policy,
				      const struct qclimb_flow_rule *rule, struct look *look)
{
	enum boundary_event event = look_across(connection, call, left, known, policy, look->priority);

	if (event == WORTH && lent_state(connection) != HELD) {
		/* held bytes wait for the mark; others must be transmitted first */
		const enum boundary_event transmitted = look_down(connection, call, left, known, policy, rule, look);

		if (transmitted != PAST)
			event = transmitted;
	} else if (event == PAST) {
		event = look_down(connection, call, left, known, policy, rule, look);
	}
	return event;
}

/*
 * The priority of a flow with a deadline. Time goes on while the kernel's buffer holds bytes, so that it is asked for
 * anew with each piece, and little is held. After the deadline nothing changes any more.
 */
static bool look_at_time(const struct connection *connection, int fd, const struct qclimb_policy *policy, uint64_t now,
			 struct look *look)
{
	const int32_t left = (int32_t)(connection->footprint.deadline_tick - tick_of(now));
	const uint64_t piece = piece_of_time(fd);

	look->priority = qclimb_deadline_priority(policy->deadline_step_us, policy->priorities,
						  left > 0 ? (uint64_t)left * 1024 / 1000 : 0);
	look->until_bytes = left > 0 ? flow_bytes(connection) + piece : UINT64_MAX;
	look->quiet_bytes = left > 0 ? 0 : UINT64_MAX;
	look->piece_bytes = (uint32_t)(piece < QCLIMB_LATE_MOST_BYTES ? piece : QCLIMB_LATE_MOST_BYTES);
	return left > 0;
}

struct look look_at(struct connection *connection, const struct write_call *call, size_t left, enum known known,
		    const struct rules *rules, uint64_t now)
{
	const struct qclimb_policy *policy = &rules->policy;
	struct look look = { FREE, connection->priority, UINT64_MAX, UINT64_MAX, QCLIMB_LATE_MOST_BYTES };
	const bool has_deadline =
		policy->mode == QCLIMB_FULL && policy->deadline_step_us && connection->footprint.deadline_tick;
	const uint64_t sent = flow_bytes(connection);
	const int fd = call->fd;
	struct qclimb_flow_rule rule;
	bool has_time = false;

	if (policy->mode < QCLIMB_PIAS || connection->is_released) {
		if (!connection->is_released)
			mark_nothing(connection, fd);
		if (policy->mode == QCLIMB_OBSERVE && !connection->footprint.is_fixed)
			look.quiet_bytes = 0; /* what is asked for before the first ACK is told in the record */
		return look;
	}
	rule = rule_of(connection, policy);
	look.quiet_bytes = quiet_until(connection, policy, &rule);
	if (has_deadline) {
		tagger_forget(connection, fd); /* it knows bytes, not time */
		has_time = look_at_time(connection, fd, policy, now, &look);
	} else if (tagger_takes(connection, fd, &rule)) {
		mark_nothing(connection, fd);
		return look;
	} else {
		look.priority = priority_at(policy, &rule, sent);
		if (look.priority > connection->priority && climbs_in_vain(connection, fd, policy, &rule)) {
			LOG("fd=%d no climb pays at=%llu", fd, (unsigned long long)sent);
			connection->is_level = true;
			rule = rule_of(connection, policy);
			look.priority = priority_at(policy, &rule, sent);
			look.quiet_bytes = quiet_until(connection, policy, &rule);
		}
		look.until_bytes = qclimb_flow_next_change(policy, &rule, sent);
	}

	if (connection->dscp >= DSCP_UNKNOWN || (policy->unpinned_dscp && connection->dscp == policy->unpinned_dscp))
		look.event = PAST; /* nothing of ours went before, or all of it is ACKed: the socket is at rest */
	else if (look.priority < connection->priority)
		look.event = look_up(connection, call, left, known, policy, &rule, &look, has_deadline, now);
	else if (look.priority > connection->priority && !has_deadline)
		look.event = look_later(connection, call, left, known, policy, &rule, &look);
	else
		look.event = look.priority > connection->priority ? PAST : SAME;

	if (has_time && (look.event == SAME || look.event == PAST) && known != KNOWN_OVER &&
	    !stays_whole(connection, call, left) && unsent_bytes(fd) > 0)
		look.event = !is_blocking(fd, call->flags) && puts_off(connection, fd, left, true) ? VAIN : AHEAD;
	if (!has_deadline)
		look.until_bytes = go_until(policy, &rule, sent, qclimb_add_bytes(sent, left));
	if (look.event == VAIN) {
		look.quiet_bytes = 0; /* a later call may find that it can be done */
		if (look.priority < connection->priority)
			look.priority = connection->priority;
		else
			look.until_bytes = UINT64_MAX;
	}
	if (stays_whole(connection, call, left))
		look.until_bytes = UINT64_MAX;
	return look;
}

void demote_transmitted(struct connection *connection, int fd, const struct rules *rules)
{
	const struct qclimb_policy *policy = &rules->policy;
	const uint64_t sent = flow_bytes(connection);
	const int unsent = unsent_bytes(fd);
	struct qclimb_flow_rule rule;
	uint32_t before, wanted;

	if (policy->mode < QCLIMB_PIAS || !connection->is_open || connection->is_released || connection->is_tagged ||
	    connection->footprint.deadline_tick || connection->dscp >= DSCP_UNKNOWN || unsent < 0 ||
	    (uint64_t)unsent > sent)
		return;
	rule = rule_of(connection, policy);
	wanted = priority_at(policy, &rule, sent - (uint64_t)unsent);
	if (wanted <= connection->priority)
		return;
	before = connection->priority;
	if (mark(connection, fd, policy, wanted))
		facts_change(connection, before, wanted);
}
