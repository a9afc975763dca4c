#include "grant.h"

#include "drain.h"
#include "log.h"

/*
 * A boundary at which the write may not be refused, or too few bytes are left to be held back. A demotion comes once so
 * much has gone past it that whatever is unsent lies past it too: nothing is served later than it should be. A
 * promotion waits for a call that finds everything ACKed, or no room.
 */
static enum ready put_off(struct connection *connection, int fd, const struct decision *decision, size_t left)
{
	if (decision->step == WAIT_TRANSMITTED) {
		if (connection->pending == PENDING_NONE) {
			connection->pending = PENDING_PUT_OFF;
			connection->put_off_at = (uint32_t)connection->sent_bytes;
		}
		if ((uint32_t)connection->sent_bytes - connection->put_off_at + left >= DRAIN_ROOM_BYTES)
			return READY_TRANSMITTED;
	}
	LOG("fd=%d puts off at=%llu", fd, (unsigned long long)connection->sent_bytes);
	return READY_PUT_OFF;
}

/*
 * What a caller that does not wait may do about the step that a decision needs. READY_LATER: EAGAIN, an event is sure
 * to come.
 */
static enum ready ready_at_once(struct connection *connection, int fd, const struct decision *decision, size_t left,
				uint64_t now)
{
	if (connection->pending == PENDING_NONE || connection->pending == PENDING_PUT_OFF) {
		if (!connection->was_refused && has_room(fd, left))
			return put_off(connection, fd, decision, left);
		connection->pending = PENDING_NONE;
		connection->pending_since_tick = tick_of(now);
	}
	if (tick_of(now) - connection->pending_since_tick > tick_of(decision->promote_wait_ns)) {
		connection->record.flags |= QCLIMB_RECORD_WAIT_RAN_OUT;
		return decision->step == WAIT_DRAINED ? READY_NEVER : READY_TRANSMITTED;
	}
	if (decision->step == WAIT_TRANSMITTED)
		return poll_transmitted(connection, fd) ? READY_TRANSMITTED : READY_LATER;
	if (connection->pending == PENDING_ACK) {
		const enum held held = poll_held(fd);

		return held == HELD_DRAINED ? READY_DRAINED : held == HELD_WAIT ? READY_LATER : READY_NEVER;
	}
	if (connection->segment_bytes <= DRAIN_HELD_BYTES)
		return READY_NEVER;
	/* Bytes are held back only where more must follow them: then the application is sure to call again. */
	if (left <= DRAIN_HELD_BYTES)
		return put_off(connection, fd, decision, left);
	return is_transmitted(connection, fd) || poll_transmitted(connection, fd) ? READY_HOLD : READY_LATER;
}

/*
 * Whether the call goes in one piece. The kernel takes a small write as one where there is room, so that processes that
 * share a connection write whole messages to it: another one's bytes must not come between two pieces of ours.
 */
static bool stays_whole(const struct connection *connection, const struct write_call *call)
{
	return call->is_whole || (connection->is_foreign && call->len <= DRAIN_ROOM_BYTES);
}

size_t grant(struct connection *connection, const struct write_call *call, size_t left, bool is_first, enum ready ready,
	     uint64_t now, bool *hold)
{
	const int fd = call->fd;
	struct decision decision;
	struct rules *rules;
	uint64_t before, left_ns, timeout_ns = 0;
	uint64_t end_ns = 0; /* of all waits, however often a signal interrupts them */
	enum waited waited;
	int blocking = -1;

	for (;; now = now_ns()) {
		rules = rules_acquire(now);
		decision = decide(connection, fd, rules, ready, now);
		rules_release(rules);
		if (decision.step == GO)
			break;
		if (blocking < 0)
			blocking = is_blocking(fd, call->flags);
		if (!blocking) {
			const enum ready found = ready_at_once(connection, fd, &decision, left, now);

			if (found == READY_LATER) {
				errno = EAGAIN;
				return 0;
			}
			if (found == READY_HOLD && stays_whole(connection, call)) {
				ready = READY_NEVER; /* its bytes can't be held back in part */
				continue;
			}
			if (found == READY_HOLD) {
				*hold = true;
				return DRAIN_HELD_BYTES;
			}
			ready = found;
			continue;
		}
		before = now;
		if (!end_ns) {
			timeout_ns = send_timeout_ns(fd);
			end_ns = now + (timeout_ns < decision.promote_wait_ns ? timeout_ns : decision.promote_wait_ns);
		}
		left_ns = end_ns > now ? end_ns - now : 0;
		waited = decision.step == WAIT_DRAINED ? wait_drained(connection, fd, left_ns)
						       : wait_transmitted(connection, fd, left_ns);
		now = now_ns();
		connection->record.wait_us += (uint32_t)((now - before) / QCLIMB_NS_PER_US + 1);
		LOG("fd=%d waited_us=%llu for=%s result=%d at=%llu", fd,
		    (unsigned long long)((now - before) / QCLIMB_NS_PER_US),
		    decision.step == WAIT_DRAINED ? "ack" : "transmission", (int)waited,
		    (unsigned long long)connection->sent_bytes);
		if (waited == WAITED_SIGNAL) {
			if (!is_first || signal_interrupts(fd)) {
				errno = EINTR;
				return 0;
			}
			continue;
		}
		if (waited == WAITED_TIMEOUT && timeout_ns < decision.promote_wait_ns && !is_first) {
			errno = EAGAIN; /* the application waits no longer */
			return 0;
		}
		if (waited == WAITED_TIMEOUT)
			connection->record.flags |= QCLIMB_RECORD_WAIT_RAN_OUT;
		if (decision.step == WAIT_DRAINED)
			ready = waited == WAITED_DONE ? READY_DRAINED : READY_NEVER;
		else
			ready = READY_TRANSMITTED; /* a demotion that comes too early harms nobody */
	}
	if (connection->pending != PENDING_NONE)
		drain_release(connection, fd);
	relaxed_set(connection->quiet_bytes, decision.quiet_bytes);
	if (!stays_whole(connection, call) && decision.until_bytes - connection->sent_bytes < left)
		return (size_t)(decision.until_bytes - connection->sent_bytes);
	return left;
}
