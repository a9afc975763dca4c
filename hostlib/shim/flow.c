#include "flow.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include "assumed.h"
#include "decision.h"
#include "drain.h"
#include "gate.h"
#include "life.h"
#include "log.h"
#include "mark.h"
#include "records.h"
#include "unseen.h"

static bool is_blocking(const struct write_call *call)
{
	int flags;

	if (call->flags & MSG_DONTWAIT)
		return false;
	flags = (int)syscall(SYS_fcntl, call->fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

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
 * How many of `left` bytes may be written now; 0 and errno: none, and `done` decides whether the call fails or is
 * short. Waits where the caller may be made to wait.
 */
static size_t grant(struct connection *connection, const struct write_call *call, size_t left, bool is_first,
		    enum ready ready, uint64_t now, bool *hold)
{
	const int fd = call->fd;
	struct decision decision;
	struct rules *rules;
	uint64_t before;
	enum waited waited;
	int blocking = -1;

	for (;; now = now_ns()) {
		rules = rules_acquire(now);
		decision = decide(connection, fd, rules, ready, now);
		rules_release(rules);
		if (decision.step == GO)
			break;
		if (blocking < 0)
			blocking = is_blocking(call);
		if (!blocking) {
			const enum ready found = ready_at_once(connection, fd, &decision, left, now);

			if (found == READY_LATER) {
				errno = EAGAIN;
				return 0;
			}
			if (found == READY_HOLD && call->is_whole) {
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
		waited = decision.step == WAIT_DRAINED ? wait_drained(connection, fd, decision.promote_wait_ns)
						       : wait_transmitted(connection, fd, decision.promote_wait_ns);
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
	if (!call->is_whole && decision.until_bytes - connection->sent_bytes < left)
		return (size_t)(decision.until_bytes - connection->sent_bytes);
	return left;
}

/* The call as it is, counted. */
static ssize_t write_whole(struct connection *connection, const struct write_call *call, uint64_t now)
{
	const ssize_t wrote = call->piece(call, 0, call->len);

	if (wrote > 0) {
		atomic_fetch_add_explicit(&connection->sent_bytes, (uint64_t)wrote, memory_order_relaxed);
		relaxed_set(connection->last_write_ns, now);
	}
	return wrote;
}

static ssize_t write_pieces(struct connection *connection, struct write_call *call, enum ready ready, uint64_t now)
{
	size_t done = 0;

	while (done < call->len) {
		bool hold = false;
		const size_t len =
			grant(connection, call, call->len - done, done == 0, ready, done ? now_ns() : now, &hold);
		ssize_t wrote;

		if (!len)
			return done ? (ssize_t)done : -1;
		ready = READY_NOT;
		if (hold)
			drain_hold_begin(connection, call->fd);
		wrote = call->piece(call, done, len);
		if (hold)
			drain_hold_end(connection, call->fd);
		if (wrote < 0) {
			if (!done)
				return -1;
			if (errno != EAGAIN && errno != EINTR) {
				connection->error_next = errno;
				connection->quiet_bytes = 0;
			}
			return (ssize_t)done;
		}
		atomic_fetch_add_explicit(&connection->sent_bytes, (uint64_t)wrote, memory_order_relaxed);
		done += (size_t)wrote;
		call->is_started = true;
		if ((size_t)wrote < len)
			break;
	}
	return (ssize_t)done;
}

/* A write on a socket without a peer: one that connects by it (TCP Fast Open), or libc's to refuse. */
static ssize_t write_unconnected(struct connection *connection, const struct write_call *call, uint64_t now,
				 const struct rules *rules, uint64_t told)
{
	ssize_t wrote;

	if (!(call->flags & MSG_FASTOPEN) && !connection->is_fastopen) {
		life_keep_told(connection, told);
		return call->piece(call, 0, call->len);
	}
	flow_rest(connection, call->fd);
	if (!connection->is_open) {
		life_start(connection, call->fd, call->len, now, rules);
		life_is_told(connection, told, now);
	}
	wrote = write_whole(connection, call, now);
	if (wrote < 0 && !connection->sent_bytes) {
		connection->is_open = false;
		life_keep_told(connection, told);
	}
	return wrote;
}

/* Whether something was read since the last write; the next asks anew. */
static bool take_turn(struct connection *connection)
{
	return atomic_load(&connection->is_turned) && atomic_exchange(&connection->is_turned, false);
}

/* `len` of a call that may ask for more than there is. */
static void measure(struct write_call *call)
{
	const size_t available = call->available ? call->available(call) : 0;

	if (available && available < call->len) /* at its end: the kernel's to say */
		call->len = available;
	call->available = NULL;
}

/*
 * What is asked for, by this call too, and how much of it before the first ACK (footprint.h); `unacked` bytes are under
 * way, if that was asked already (else negative). It isn't asked within the calm bytes: nothing depends on it there.
 */
static void ask_footprint(struct connection *connection, const struct write_call *call,
			  const struct qclimb_policy *policy, int unacked)
{
	const uint64_t sent = relaxed_get(connection->sent_bytes);
	const uint32_t calm = calm_of(policy);
	struct qclimb_footprint *flow = &connection->footprint;
	bool is_acked = false;

	if (flow->asked_bytes < sent)
		flow->asked_bytes = sent; /* by quiet writes */
	if (!flow->is_fixed && sent &&
	    (policy->mode == QCLIMB_OBSERVE ||
	     (policy->mode == QCLIMB_FULL && qclimb_add_bytes(sent, call->len) > calm_bytes(calm)))) {
		if (unacked < 0)
			unacked = unacked_bytes(call->fd);
		is_acked = (uint64_t)unacked < sent;
	}
	qclimb_footprint_ask(flow, sent, call->len, is_acked);
}

static inline bool assumed_is_due(const struct connection *connection, size_t len, uint64_t now)
{
	return relaxed_get(connection->is_turned) && tick_of(now) - connection->verified_tick < VERIFY_TICKS &&
	       assumed_begins(connection, len, rules_calm());
}

/* A write after a turn that is taken for the first of a flow (assumed.h). The gate is ours. */
static ssize_t write_assumed(struct connection *connection, struct write_call *call, uint64_t now)
{
	ssize_t wrote;

	relaxed_set(connection->is_turned, false);
	relaxed_set(connection->read_bytes, 0);
	measure(call);
	life_assume(connection, call->fd, call->len, now);
	relaxed_set(connection->quiet_bytes, calm_bytes(rules_calm()));
	wrote = write_whole(connection, call, now);
	if (unlikely(wrote <= 0))
		relaxed_set(connection->is_turned, true); /* it has not begun */
	if (unlikely(relaxed_get(connection->told))) /* sent_bytes was added to since is_turned was cleared: in order */
		relaxed_set(connection->is_turned, true); /* told meanwhile: for the next write */
	return wrote;
}

/* A write that may start a flow, cross a boundary or wait at one. The gate is ours. */
static __attribute__((noinline)) ssize_t write_decided(struct connection *connection, struct write_call *call,
						       uint64_t now)
{
	const int saved = errno;
	const bool is_turned = take_turn(connection);
	const uint32_t verified_tick = connection->verified_tick;
	enum ready ready = READY_NOT;
	struct rules *rules;
	int unacked = -1;
	uint64_t told;
	ssize_t wrote;

	if (connection->error_next) {
		errno = connection->error_next;
		connection->error_next = 0;
		return -1;
	}
	told = relaxed_get(connection->told) ? atomic_exchange(&connection->told, 0) : 0;
	rules = rules_acquire(now);
	if (rules->policy.mode == QCLIMB_OFF) {
		mark_nothing(connection, call->fd);
		rules_release(rules);
		errno = saved;
		return write_whole(connection, call, now);
	}
	if (!life_identify(connection, call->fd, now)) {
		errno = saved;
		wrote = write_unconnected(connection, call, now, rules, told);
		rules_release(rules);
		return wrote;
	}
	measure(call);
	if (connection->has_unseen || (verified_tick && verified_tick != connection->verified_tick))
		unseen_look(connection, call->fd, 1);
	if (told || life_is_over(connection, call->fd, now, is_turned)) {
		/* Pending without a flow: it is this one that waits to begin. */
		const bool is_waiting = told && !connection->is_open;

		life_finish(connection, now, 0);
		if (connection->pending != PENDING_NONE && !is_waiting)
			drain_release(connection, call->fd);
		life_start(connection, call->fd, call->len, now, rules);
		life_is_told(connection, told, now);
		/* Told to begin while earlier bytes are under way: the drain before a promotion holds across flows. */
		ready = told && !is_drained(connection, call->fd, now) ? READY_NOT : READY_DRAINED;
	} else if (connection->record.before_bytes) {
		unacked = unacked_bytes(call->fd);
		assumed_settle(connection, unacked);
	}
	ask_footprint(connection, call, &rules->policy, unacked);
	life_forecast_if_due(connection, rules);
	rules_release(rules);
	relaxed_set(connection->read_bytes, 0);
	errno = saved;
	wrote = write_pieces(connection, call, ready, now);
	relaxed_set(connection->last_write_ns, connection->record.wait_us ? now_ns() : now);
	if (wrote >= 0)
		errno = saved;
	if (!connection->sent_bytes) {
		connection->is_open = false;
		connection->quiet_bytes = 0;
		life_keep_told(connection, told);
	}
	return wrote;
}

static inline bool is_quiet(const struct connection *connection, size_t len, uint64_t now)
{
	return len <= connection->quiet_bytes && connection->sent_bytes <= connection->quiet_bytes - len &&
	       !atomic_load_explicit(&connection->is_turned, memory_order_relaxed) &&
	       now - connection->last_write_ns <= connection->gap_us * QCLIMB_NS_PER_US;
}

/* A call that nothing was decided for was refused or short: the rest of it is to come. The gate is ours. */
static __attribute__((noinline)) void note_short(struct connection *connection, struct write_call *call, ssize_t wrote)
{
	const uint64_t sent = relaxed_get(connection->sent_bytes);
	const size_t done = wrote > 0 ? (size_t)wrote : 0;
	size_t left = call->len - done, available;

	if (call->available && done) {
		available = call->available(call);
		left = available < left ? available : left;
		if (!left)
			return; /* all that there was */
	}
	connection->was_refused = true;
	if (done)
		qclimb_footprint_ask(&connection->footprint, sent, left, 0);
}

ssize_t flow_write(struct connection *connection, struct write_call *call)
{
	const bool is_alone = relaxed_get(connection->is_turned) && enter_alone(connection);
	uint64_t now;
	ssize_t wrote;

	if (!is_alone)
		enter(connection);
	now = now_ns();
	if (!is_alone && (likely(is_quiet(connection, call->len, now)) || !take_gate(connection, 1))) {
		wrote = write_whole(connection, call, now);
		if (unlikely(wrote != (ssize_t)call->len) && take_gate(connection, 1)) {
			note_short(connection, call, wrote);
			give_gate(connection);
		}
		leave(connection);
		return wrote;
	}
	if (likely(assumed_is_due(connection, call->len, now))) {
		wrote = write_assumed(connection, call, now);
		if (unlikely(wrote != (ssize_t)call->len))
			note_short(connection, call, wrote);
	} else {
		wrote = write_decided(connection, call, now);
		if (wrote != (ssize_t)call->len)
			connection->was_refused = true;
	}
	leave_gate(connection);
	return wrote;
}

/* --- the other direction */

void flow_read_more(struct connection *connection, int fd, bool is_pause)
{
	const int saved = errno;
	struct rules *rules;
	uint64_t now;

	if (is_pause && rules_quickack()) {
		/*
		 * Bulk that paused: its last segment's ACK must not wait for a timer. A request's ACK rides on the
		 * answer.
		 */
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
	}
	if (relaxed_get(connection->priority) != 0 && take_gate(connection, 0)) {
		now = now_ns();
		if (unacked_bytes(fd) == 0) {
			connection->record.drained_us = (uint32_t)((now - connection->start_ns) / QCLIMB_NS_PER_US);
			rules = rules_acquire(now);
			if (rules->policy.mode >= QCLIMB_PIAS && !connection->is_released)
				(void)mark(connection, fd, &rules->policy, 0);
			rules_release(rules);
		}
		give_gate(connection);
	}
	errno = saved;
}

void flow_rest(struct connection *connection, int fd)
{
	const int saved = errno;
	struct rules *rules = rules_acquire(now_ns());

	if (rules->policy.mode >= QCLIMB_PIAS && !connection->is_released)
		(void)mark(connection, fd, &rules->policy, 0);
	rules_release(rules);
	errno = saved;
}

/* The last look at a descriptor that is still open. */
static void look_at_end(struct connection *connection, int fd, uint64_t now)
{
	struct rules *rules;

	if (connection->is_open && !connection->has_addresses)
		(void)life_identify(connection, fd,
				    now); /* of a connection that its first write made (TCP Fast Open) */
	if (unseen_is_due(connection, now)) {
		rules = rules_acquire(now);
		if (rules->policy.mode != QCLIMB_OFF &&
		    (!connection->has_addresses || life_identify(connection, fd, now)))
			unseen_look(connection, fd, 0);
		if (connection->unseen_bytes && !connection->is_open && life_identify(connection, fd, now))
			life_start(connection, fd, 0, now, rules); /* nothing of it came by here */
		rules_release(rules);
	}
}

void flow_closed(struct connection *connection, int fd)
{
	const int saved = errno;
	const uint64_t now = now_ns();

	if (fd >= 0)
		look_at_end(connection, fd, now);
	life_finish(connection, now, QCLIMB_RECORD_CLOSED | (fd == FD_LOST ? QCLIMB_RECORD_UNOBSERVED : 0));
	records_flush_if_due(now);
	errno = saved;
}
