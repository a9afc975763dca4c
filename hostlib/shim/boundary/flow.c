#include "boundary/flow.h"

#include <netinet/tcp.h>

#include "life/announced.h"
#include "life/assumed.h"
#include "life/facts.h"
#include "socket/drain.h"
#include "socket/loans.h"
#include "socket/written.h"
#include "boundary/gate.h"
#include "life/life.h"
#include "tell/log.h"
#include "socket/mark.h"
#include "base/process.h"
#include "tell/records.h"
#include "life/unseen.h"

/* The call as it is, counted; other threads may be writing, too. */
static ssize_t write_quiet(struct connection *connection, const struct write_call *call, uint64_t now)
{
	const ssize_t wrote = call->piece(call, 0, call->len);

	if (likely(wrote > 0)) {
		written_among(connection, (uint64_t)wrote);
		written_at(connection, now);
	}
	return wrote;
}

/*
 * The same of a write that a decision is due for, which it doesn't get while others write. What is lent goes back
 * first: the kernel would cut a message where its room ends, and take another thread's bytes in between. Nobody lends
 * while two are in their calls.
 */
static __attribute__((noinline)) ssize_t write_among(struct connection *connection, const struct write_call *call,
						     uint64_t now)
{
	const int saved = errno;
	struct rules *rules;
	uint32_t holder;
	bool has_gate;

	while (!(has_gate = take_gate(connection, writers_of(connection))) && relaxed_get(connection->lent)) {
		holder = holder_of(atomic_load(&connection->writing));
		if (holder && (holder == this_thread() || is_gone(holder)))
			break; /* a handler inside our own wait */
		relax();
	}
	if (has_gate) {
		if (connection->lent)
			loans_give(connection, call->fd);
		rules = rules_acquire(now);
		demote_transmitted(connection, call->fd, rules);
		rules_release(rules);
		give_gate(connection);
		errno = saved;
	}
	return write_quiet(connection, call, now);
}

/* The call as it is, counted. The gate is ours. */
static inline ssize_t write_whole(struct connection *connection, const struct write_call *call, uint64_t now)
{
	const ssize_t wrote = call->piece(call, 0, call->len);

	if (likely(wrote > 0)) {
		written_alone(connection, (uint64_t)wrote);
		written_at(connection, now);
	}
	return wrote;
}

static void begin(struct connection *connection, const struct write_call *call, uint64_t now, const struct rules *rules,
		  uint64_t told)
{
	life_start(connection, call->fd, call->len, now, rules);
	look_begins(connection);
	life_is_told(connection, told, now);
}

/* A write on a socket without a peer: one that connects by it (TCP Fast Open), or libc's to refuse. */
static ssize_t write_unconnected(struct connection *connection, const struct write_call *call, uint64_t now,
				 const struct rules *rules, uint64_t told)
{
	ssize_t wrote;

	if (!(call->flags & MSG_FASTOPEN) && !connection->is_fastopen) {
		told_keep(connection, told);
		return call->piece(call, 0, call->len);
	}
	flow_rest(connection, call->fd);
	if (!connection->is_open)
		begin(connection, call, now, rules, told);
	wrote = write_whole(connection, call, now);
	if (wrote < 0 && !flow_bytes(connection))
		life_not_begun(connection, told);
	return wrote;
}

static inline struct shown shown_of(const struct write_call *call, struct iovec *one)
{
	*one = (struct iovec){ (void *)(uintptr_t)call->bytes, call->len };
	return (struct shown){ call->shows == SHOWS_PARTS ? call->parts : one,
			       call->shows == SHOWS_PARTS ? call->part_count : call->shows };
}

/* `len` of a call that may ask for more than there is. */
static void measure(struct write_call *call)
{
	const size_t available = call->available ? call->available(call) : 0;

	if (available && available < call->len) /* at its end: the kernel's to say */
		call->len = available;
	call->available = NULL;
}

#define SEGMENT_LEAST_BYTES 536 /* RFC 9293, section 3.7.1 */
#define CORKED_NS UINT64_C(100000000)

/* By the application's cork, which holds less than a segment for 200 ms (tcp(7)): nothing of the flow can be ACKed. */
static bool is_held_back(const struct connection *connection, uint64_t sent, uint64_t now)
{
	return connection->has_corked && sent < SEGMENT_LEAST_BYTES && now - connection->start_ns < CORKED_NS;
}

/*
 * What is asked for, by this call too, and how much of it before the first ACK (footprint.h); `unacked` bytes are under
 * way, if that was asked already (else negative). It isn't asked within the calm bytes: nothing depends on it there.
 */
static void ask_footprint(struct connection *connection, const struct write_call *call,
			  const struct qclimb_policy *policy, int unacked, uint64_t now)
{
	const uint64_t sent = flow_bytes(connection);
	const uint32_t calm = calm_of(policy);
	struct qclimb_footprint *flow = &connection->footprint;
	bool is_acked = false;

	if (flow->asked_bytes < sent)
		flow->asked_bytes = sent; /* by quiet writes */
	if (!flow->is_fixed && sent && !is_held_back(connection, sent, now) &&
	    (policy->mode == QCLIMB_OBSERVE ||
	     (policy->mode == QCLIMB_FULL && qclimb_add_bytes(sent, call->len) > calm_end(calm, 0)))) {
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
	const uint32_t calm = rules_calm();
	const bool has_heads = rules_heads();
	struct beginning beginning;
	struct shown shown;
	struct iovec one;
	ssize_t wrote;

	if (has_heads)
		announced_leave(connection, relaxed_get(connection->is_turned), &beginning);
	turn_used(connection);
	read_used(connection);
	measure(call);
	life_assume(connection, call->fd, call->len, now);
	quiet_to(connection, calm_end(calm, flow_bytes(connection)));
	if (has_heads) {
		shown = shown_of(call, &one);
		announced_begin(connection, &beginning, &shown, call->len, calm, now);
	}
	wrote = write_whole(connection, call, now);
	if (unlikely(wrote <= 0))
		turn_again(connection); /* it has not begun */
	else if (has_heads)
		announced_look(connection, &beginning, &shown, (size_t)wrote, calm, now);
	if (unlikely(relaxed_get(connection->told))) /* `written` was added to since is_turned was cleared: in order */
		turn_again(connection); /* told meanwhile: for the next write */
	return wrote;
}

/* A write that may start a flow, cross a boundary or wait at one. The gate is ours. */
static __attribute__((noinline)) ssize_t write_decided(struct connection *connection, struct write_call *call,
						       uint64_t now)
{
	const int saved = errno;
	const uint8_t turn = turn_take(connection);
	const bool has_heads = rules_heads();
	const uint32_t verified_tick = connection->verified_tick;
	enum known known = KNOWN_NOTHING;
	struct beginning beginning = { .is_due = false };
	struct shown shown;
	struct iovec one;
	uint32_t calm;
	struct rules *rules;
	int unacked = -1;
	uint64_t told;
	ssize_t wrote;
	int error;

	if (unlikely(relaxed_get(connection->error_next)) && (error = flow_take_error(connection))) {
		errno = error;
		return -1;
	}
	told = told_take(connection);
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
	calm = calm_of(&rules->policy);
	shown = shown_of(call, &one);
	if (told || life_is_over(connection, call->fd, now, turn)) {
		/* Pending without a flow: it is this one that waits to begin. */
		const bool is_waiting = told && !connection->is_open;

		if (has_heads)
			announced_leave(connection, turn, &beginning);
		life_finish(connection, now, 0);
		if (connection->lent && !is_waiting)
			loans_give(connection, call->fd);
		begin(connection, call, now, rules, told);
		if (has_heads)
			announced_begin(connection, &beginning, &shown, call->len, calm, now);
		/* Told to begin while earlier bytes are under way: the drain before a promotion holds across flows. */
		known = told && !is_drained(connection, call->fd, now) ? KNOWN_NOTHING : KNOWN_CLEAR;
	} else if (connection->facts.before_bytes) {
		unacked = unacked_bytes(call->fd);
		assumed_settle(connection, unacked);
	}
	ask_footprint(connection, call, &rules->policy, unacked, now);
	life_forecast_if_due(connection, call->fd, rules);
	rules_release(rules);
	read_used(connection);
	errno = saved;
	wrote = write_pieces(connection, call, known, now);
	if (wrote > 0)
		announced_look(connection, &beginning, &shown, (size_t)wrote, calm, now);
	written_at(connection, connection->facts.wait_us ? now_ns() : now);
	if (wrote >= 0)
		errno = saved;
	if (!flow_bytes(connection))
		life_not_begun(connection, told);
	return wrote;
}

static inline bool is_quiet(const struct connection *connection, size_t len, uint64_t now)
{
	return is_quiet_for(connection, len) && !atomic_load_explicit(&connection->is_turned, memory_order_relaxed) &&
	       now - connection->last_write_ns <= connection->flow_gap_us * QCLIMB_NS_PER_US;
}

/* A call that nothing was decided for was refused or short: the rest of it is to come. The gate is ours. */
static __attribute__((noinline)) void note_short(struct connection *connection, struct write_call *call, ssize_t wrote)
{
	const uint64_t sent = flow_bytes(connection);
	const size_t done = wrote > 0 ? (size_t)wrote : 0;
	size_t left = call->len - done, available;

	if (call->available && done) {
		available = call->available(call);
		left = available < left ? available : left;
		if (!left)
			return; /* all that there was */
	}
	if (done)
		qclimb_footprint_ask(&connection->footprint, sent, left, 0);
}

ssize_t flow_write(struct connection *connection, struct write_call *call)
{
	/* A decision is due for sure: of several that come at one moment, one is alone. */
	const bool is_alone =
		(relaxed_get(connection->is_turned) || !is_quiet_for(connection, 1)) && enter_alone(connection);
	uint64_t now;
	bool is_calm;
	ssize_t wrote;

	if (!is_alone && !enter(connection, call->fd, call->len, call->flags))
		return -1;
	now = now_ns();
	if (!is_alone && ((is_calm = is_quiet(connection, call->len, now)) || !take_gate(connection, 1))) {
		wrote = likely(is_calm && !relaxed_get(connection->lent)) ? write_quiet(connection, call, now)
									  : write_among(connection, call, now);
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
	}
	leave_gate(connection);
	return wrote;
}

/* --- the other direction */

/*
 * The socket is marked as one that sends, and what it sends now are ACKs: bulk comes in. Where all priorities take one
 * path that is the same mark.
 */
static bool is_sending(const struct connection *connection)
{
	const uint8_t dscp = relaxed_get(connection->dscp);

	return dscp < DSCP_UNKNOWN && dscp != rules_rest();
}

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
	if ((relaxed_get(connection->priority) != 0 || (is_pause && is_sending(connection))) &&
	    take_gate(connection, 0)) {
		now = now_ns();
		if (unacked_bytes(fd) == 0) {
			facts_drained(connection, now);
			rules = rules_acquire(now);
			if (rules->policy.mode >= QCLIMB_PIAS && !connection->is_released)
				(void)mark_rest(connection, fd, &rules->policy);
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
		(void)mark_rest(connection, fd, &rules->policy);
	rules_release(rules);
	errno = saved;
}
