#include "boundary/grant.h"

#include "life/facts.h"
#include "socket/drain.h"
#include "socket/loans.h"
#include "socket/mark.h"
#include "socket/worth.h"
#include "socket/written.h"
#include "tell/log.h"

#define NAP_MOST_NS (QCLIMB_NS_PER_MS / 4)
#define READY BOUNDARY_EVENTS /* no event: the socket is writable, look */

/* One writing call at a boundary. */
struct at {
	struct connection *connection;
	const struct write_call *call;
	size_t left;
	enum known known;
	uint64_t now;
	struct cut *cut;
	int error; /* of REFUSE */
	struct look look; /* the last one */
};

/* What is left of the longest wait, by the policy. */
static uint64_t left_ns(const struct at *at)
{
	struct rules *rules = rules_acquire(at->now);
	const uint64_t most_ns = rules->policy.promote_wait_us * QCLIMB_NS_PER_US;
	const int64_t took_ns = (int64_t)(int32_t)(tick_of(at->now) - at->connection->wait_since_tick) * 1024;

	rules_release(rules);
	return took_ns < (int64_t)most_ns ? (uint64_t)((int64_t)most_ns - took_ns) : 0;
}

/* A caller that does not wait: writable, or EAGAIN of a socket that the kernel itself holds to be full. */
static enum boundary_event find_ready(struct at *at)
{
	if (is_writable(at->call->fd))
		return READY;
	if (puts_off(at->connection, at->call->fd, at->left, lent_state(at->connection) == LATE))
		return VAIN;
	if (!left_ns(at))
		return OVER;
	at->error = EAGAIN;
	return FULL;
}

/*
 * A blocking call that has too few bytes to hold back: there is no event for the last segment's ACK, so short naps, of
 * an eighth of what it takes at most.
 */
static void nap_until_clear(struct at *at)
{
	const int fd = at->call->fd;
	const uint64_t ack_ns = ack_due_ns(fd), wait_ns = left_ns(at);
	const uint64_t end_ns = at->now + (ack_ns < wait_ns ? ack_ns : wait_ns);

	while (unacked_bytes(fd) > 0 && at->now < end_ns) {
		(void)nap(ack_ns < NAP_MOST_NS * 8 ? ack_ns / 8 : NAP_MOST_NS);
		at->now = now_ns();
	}
	if (unsent_bytes(fd) == 0)
		at->known = KNOWN_CLEAR; /* or the ACK is a delayed one */
}

/*
 * A blocking one. Where a bare kernel has room its call is over by now: nothing interrupts it, and no handler runs
 * between its pieces; else it would be in the midst of it.
 */
static enum boundary_event wait_ready(struct at *at)
{
	const int fd = at->call->fd;
	const uint64_t began = at->now, timeout_ns = send_timeout_ns(fd);
	const uint64_t ack_ns = lent_state(at->connection) == HELD ? ack_due_ns(fd) : UINT64_MAX;
	const bool is_first = !at->call->is_started;
	bool is_room = has_room(at->connection, fd, at->left, false);
	const uint64_t patience_ns = is_room ? at->cut->patience_ns : UINT64_MAX, policy_ns = left_ns(at);
	const uint64_t wait_ns = policy_ns < patience_ns ? policy_ns : patience_ns;
	uint64_t end_ns = timeout_ns < wait_ns ? timeout_ns : wait_ns;
	enum boundary_event event;
	enum waited waited;

	end_ns = began + (ack_ns < end_ns ? ack_ns : end_ns);
	do
		waited = wait_writable(fd, end_ns > at->now ? end_ns - at->now : 0,
				       at->cut->is_held && !is_room ? &at->cut->signals : NULL);
	while (waited == WAITED_SIGNAL &&
	       ((is_room = has_room(at->connection, fd, at->left, false)) || (is_first && !signal_interrupts(fd))) &&
	       (at->now = now_ns()) != 0);
	at->now = now_ns();
	if (patience_ns != UINT64_MAX)
		at->cut->patience_ns -= at->now - began < patience_ns ? at->now - began : patience_ns;
	if (waited == WAITED_DONE) {
		event = READY;
		if (lent_state(at->connection) == LENT && at->left <= HELD_BYTES)
			nap_until_clear(at);
	} else if (waited == WAITED_ERROR) {
		event = is_first ? HUNG : STOP; /* its error is the kernel's to tell, to a read as well */
		at->error = EPIPE;
	} else if (waited == WAITED_SIGNAL) {
		event = STOP;
		at->error = EINTR;
	} else if (ack_ns < wait_ns && ack_ns < timeout_ns) {
		event = READY;
		at->known = KNOWN_CLEAR; /* the last segment's ACK is delayed */
	} else if (timeout_ns < wait_ns && !has_room(at->connection, fd, at->left, false)) {
		event = STOP;
		at->error = EAGAIN; /* the application waits no longer */
	} else {
		event = OVER;
	}
	facts_waited(at->connection, at->now - began);
	LOG("fd=%d waited_us=%llu for=%s result=%d at=%llu", fd,
	    (unsigned long long)((at->now - began) / QCLIMB_NS_PER_US),
	    lent_state(at->connection) == LATE ? "transmission" : "ack", (int)waited,
	    (unsigned long long)flow_bytes(at->connection));
	return event;
}

static enum boundary_event look(struct at *at)
{
	struct rules *rules = rules_acquire(at->now);

	at->look = look_at(at->connection, at->call, at->left, at->known, rules, at->now);
	rules_release(rules);
	return at->look.event;
}

static void mark_now(struct at *at)
{
	struct connection *connection = at->connection;
	struct rules *rules = rules_acquire(at->now);
	const uint32_t before = connection->dscp < DSCP_UNKNOWN ? connection->priority : at->look.priority;

	if (mark(connection, at->call->fd, &rules->policy, at->look.priority))
		facts_change(connection, before, at->look.priority);
	rules_release(rules);
}

static void act(struct at *at, enum boundary_state state, enum boundary_event event, uint8_t actions)
{
	struct connection *connection = at->connection;
	const int fd = at->call->fd;

	if (actions & MARK)
		mark_now(at);
	if (actions & GIVE) {
		loans_give(connection, fd);
		if (state != LATE && (event == CLEAR || actions & KEEP))
			climb_took(connection, fd, at->now);
	}
	if (actions & KEEP)
		at->known = KNOWN_OVER;
	if (event == OVER)
		facts_flag(connection, QCLIMB_RECORD_WAIT_RAN_OUT);
	if (actions & LEND_LOWAT) {
		connection->wait_since_tick = tick_of(at->now);
		lend_lowat(connection, fd, (int)(2 * at->look.piece_bytes));
	}
	if (actions & LEND_SNDBUF) {
		push(connection, fd);
		connection->wait_since_tick = climb_begins(fd, at->now);
		lend_sndbuf(connection, fd);
	}
	if (actions & LEND_CORK) {
		connection->wait_since_tick = tick_of(at->now); /* of the drain itself */
		lend_cork(connection, fd);
	}
}

size_t grant(struct connection *connection, const struct write_call *call, size_t left, enum known known, uint64_t now,
	     struct cut *cut)
{
	struct at at = { connection, call, left, known, now, cut, 0, { .until_bytes = UINT64_MAX } };

	for (;; at.now = now_ns()) {
		const enum boundary_state state = lent_state(connection);
		enum boundary_event event = READY;
		struct boundary_step step;

		if (state != CALM)
			event = is_blocking(call->fd, call->flags) ? wait_ready(&at) : find_ready(&at);
		if (event == READY)
			event = look(&at);
		step = boundary_steps[state][event];
		act(&at, state, event, step.actions);
		switch ((enum boundary_then)step.then) {
		case AGAIN:
			continue;
		case REFUSE:
			errno = at.error;
			return 0;
		case HOLD:
			return HELD_BYTES < left ? HELD_BYTES : left;
		case PIECE:
			return at.look.piece_bytes < left ? at.look.piece_bytes : left;
		case GO:
			break;
		}
		quiet_to(connection, at.look.quiet_bytes);
		if (at.look.until_bytes - flow_bytes(connection) < left)
			return (size_t)(at.look.until_bytes - flow_bytes(connection));
		return left;
	}
}
