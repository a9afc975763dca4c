#include "flow.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>

#include "drain.h"
#include "forecast.h"
#include "gate.h"
#include "history.h"
#include "log.h"
#include "mark.h"
#include "process.h"
#include "records.h"
#include "unseen.h"

#define VERIFY_NS (50 * QCLIMB_NS_PER_MS)

/*
 * A promotion costs a drain: about a round trip in which the path stays empty. It is made where at least this many times the bytes
 * that fit into that time follow at the new priority: then climbing costs a flow a fifth of its time at most. Otherwise it is put off to
 * the next one, and left out near the end of what is certain to follow.
 */
#define PROMOTION_PAYS 4

/* --- who talks to whom */

static bool address_of(const struct sockaddr_storage *from, uint8_t *address, uint16_t *port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	memset(address, 0, 16);
	if (from->ss_family == AF_INET) {
		address[10] = address[11] = 0xff;
		memcpy(address + 12, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
		return true;
	}
	memcpy(address, &v6->sin6_addr, 16);
	*port = ntohs(v6->sin6_port);
	return from->ss_family == AF_INET6;
}

/* Learns, once a connection, its addresses and cookie, and later that the descriptor still is this connection. */
static bool identify(struct connection *connection, int fd, uint64_t now)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
	uint64_t cookie = 0;

	if (connection->has_addresses && now - connection->verified_ns < VERIFY_NS)
		return true;
	if (sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof(cookie)))
		return false;
	connection->verified_ns = now;
	if (connection->has_addresses && cookie == connection->cookie)
		return true;
	if (connection->has_addresses) {
		/* Another socket under the old number: nothing that we know holds. */
		LOG("fd=%d was reused behind our back", fd);
		connection->dscp = DSCP_NOT_SET;
		connection->pending = PENDING_NONE;
		connection->flows = 0;
		connection->own_nodelay = -1;
		unseen_forget(connection, fd);
	}
	if (syscall(SYS_getsockname, fd, &local, &local_len) || syscall(SYS_getpeername, fd, &peer, &peer_len) ||
	    !address_of(&local, connection->local_addr, &connection->local_port) ||
	    !address_of(&peer, connection->peer_addr, &connection->peer_port))
		return false;
	connection->cookie = cookie;
	connection->segment_bytes = 1448;
	connection->has_addresses = true;
	return true;
}

/* --- start and end */

static void flow_finish(struct connection *connection, uint64_t now, uint8_t flags)
{
	struct qclimb_record *record = &connection->record;

	if (!connection->is_open)
		return;
	connection->is_open = false;
	connection->quiet_bytes = 0;
	if (!connection->sent_bytes && !connection->unseen_bytes)
		return;
	connection->flows++;
	record->size_bytes = connection->sent_bytes + connection->unseen_bytes;
	record->last_write_ns = connection->last_write_ns;
	record->footprint_lower_bytes = connection->footprint.is_fixed ? connection->footprint.fixed_lower_bytes
								       : connection->footprint.asked_bytes;
	record->last_priority = (uint8_t)connection->priority;
	record->flags |= flags;
	if (connection->unseen_bytes)
		record->flags |= QCLIMB_RECORD_UNOBSERVED; /* no size to learn from */
	else
		history_remember(connection, record);
	connection->unseen_bytes = 0;
	if (connection->is_shared) {
		connection->is_shared = false; /* the parent tells of it */
		return;
	}
	LOG("flow ends size=%llu priority=%u promotions=%u demotions=%u waited_us=%llu",
	    (unsigned long long)record->size_bytes, connection->priority, record->promotions, record->demotions,
	    (unsigned long long)(record->wait_ns / QCLIMB_NS_PER_US));
	records_add(record, connection->generation, now);
}

/* Who the flow is between: of a connection that its first write made (TCP Fast Open) only known later. */
static void flow_identify(struct connection *connection)
{
	struct qclimb_record *record = &connection->record;

	record->connection = connection->cookie;
	memcpy(record->local_addr, connection->local_addr, 16);
	memcpy(record->peer_addr, connection->peer_addr, 16);
	record->local_port = connection->local_port;
	record->peer_port = connection->peer_port;
}

static void flow_start(struct connection *connection, int fd, size_t call_bytes, uint64_t now,
		       const struct rules *rules)
{
	struct qclimb_record *record = &connection->record;
	const struct qclimb_policy *policy = &rules->policy;

	memset(record, 0, sizeof(*record));
	record->start_ns = now;
	record->first_write_bytes = call_bytes;
	record->start_us = (now - qclimb_process.start_ns) / QCLIMB_NS_PER_US;
	record->upper_bytes = QCLIMB_UNKNOWN_BYTES;
	flow_identify(connection);
	record->pid = (uint32_t)qclimb_process.pid;
	record->flow_index = connection->flows;
	record->role = connection->role;
	record->mode = (uint8_t)policy->mode;
	memcpy(record->comm, qclimb_process.comm, sizeof(record->comm));
	history_recall(connection, record);

	qclimb_footprint_start(&connection->footprint);
	connection->is_forecast = false;
	connection->is_open = true;
	connection->is_shared = false;
	connection->sent_bytes = 0;
	connection->quiet_bytes = 0;
	connection->kept_bytes = 0;
	connection->last_write_ns = now;
	connection->gap_ns = policy->flow_gap_us * QCLIMB_NS_PER_US;
	connection->generation = policy->generation;
	LOG("fd=%d flow starts call=%zu", fd, call_bytes);
}

/* The application has said where this flow begins, and perhaps its size. */
static void flow_is_told(struct connection *connection, uint64_t told_bytes)
{
	if (told_bytes == 0 || told_bytes == QCLIMB_UNKNOWN_BYTES)
		return;
	qclimb_footprint_tell(&connection->footprint, told_bytes);
	connection->is_forecast = true; /* nobody else need be asked */
	connection->record.flags |= QCLIMB_RECORD_HINT;
	LOG("told size=%llu", (unsigned long long)told_bytes);
}

/* What was told is used by the next write that begins a flow: this one wrote nothing of it. What was told since then counts. */
static void keep_told(struct connection *connection, uint64_t told_bytes)
{
	uint64_t nothing = 0;

	(void)atomic_compare_exchange_strong(&connection->told_bytes, &nothing, told_bytes);
}

/*
 * Asks the forest, once a flow, and only when the application has asked to send more than the first threshold: up to there the flow
 * would hardly be served later, and a walk through cold memory (11-13 us in bench/forest.py) is not free.
 */
static void forecast_if_due(struct connection *connection, const struct rules *rules)
{
	struct qclimb_record *record = &connection->record;
	const struct qclimb_policy *policy = &rules->policy;

	if (connection->is_forecast || policy->mode != QCLIMB_FULL || !(policy->flags & QCLIMB_USE_FOREST) ||
	    !rules->forest || connection->footprint.asked_bytes <= policy->threshold_bytes[1])
		return;
	connection->is_forecast = true;
	if (forecast(rules->forest, connection, record)) {
		record->flags |= QCLIMB_RECORD_FOREST;
		qclimb_footprint_foretell(&connection->footprint, record->lower_bytes, record->upper_bytes);
	} else {
		record->lower_bytes = 0;
		record->upper_bytes = QCLIMB_UNKNOWN_BYTES;
	}
	LOG("forecast lower=%llu upper=%llu", (unsigned long long)record->lower_bytes,
	    (unsigned long long)record->upper_bytes);
}

/* Whether the flow under way is over for a write that comes now: turned or quiet for long, and everything ACKed. */
static bool is_over(struct connection *connection, int fd, uint64_t now, bool is_turned)
{
	if (!connection->is_open || !connection->sent_bytes)
		return true;
	if (!is_turned && now - connection->last_write_ns <= connection->gap_ns)
		return false;
	return is_drained(connection, fd, now);
}

/* --- how far, at which priority */

struct decision {
	uint64_t until_bytes; /* the flow may be written to here */
	uint64_t quiet_bytes; /* and to here without another decision */
	enum { GO, WAIT_TRANSMITTED, WAIT_DRAINED } step;
	uint64_t promote_wait_ns;
};

/* What the caller has made sure of before it asks. */
enum ready {
	READY_NOT,
	READY_TRANSMITTED,
	READY_DRAINED,
	READY_NEVER, /* a drain was given up */
	READY_LATER, /* nothing may be written now */
	READY_HOLD, /* the next bytes may be written to be held back */
};

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
		return false;
	}
	if (next != QCLIMB_UNKNOWN_BYTES && next - sent < least && qclimb_flow_priority(policy, rule, next) < wanted) {
		*until = next;
		return false;
	}
	return true;
}

/* Decides for the next byte. Sets the socket's priority where that may be done now. */
static struct decision decide(struct connection *connection, int fd, const struct rules *rules, enum ready ready)
{
	const struct qclimb_policy *policy = &rules->policy;
	struct decision decision = { UINT64_MAX, UINT64_MAX, GO, policy->promote_wait_us * QCLIMB_NS_PER_US };
	struct qclimb_flow_rule rule;
	uint32_t wanted;

	if (policy->mode < QCLIMB_PIAS || connection->is_released) {
		if (!connection->is_released)
			mark_nothing(connection, fd);
		return decision;
	}
	rule = qclimb_flow_rule_of(policy, &connection->footprint);
	wanted = qclimb_flow_priority(policy, &rule, connection->sent_bytes);
	decision.until_bytes = qclimb_flow_next_change(policy, &rule, connection->sent_bytes);
	decision.quiet_bytes = decision.until_bytes;
	if (policy->mode == QCLIMB_FULL && !connection->footprint.is_fixed &&
	    rule.bounds.lower_bytes < decision.quiet_bytes)
		decision.quiet_bytes = rule.bounds.lower_bytes; /* a write beyond may raise L */

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
			if (!promotion_pays(connection, fd, policy, &rule, wanted, &until)) {
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
		if (ready == READY_NOT && unsent_bytes(fd) > 0) {
			decision.step = WAIT_TRANSMITTED;
			return decision;
		}
		connection->record.demotions++;
	}
	if (!mark(connection, fd, policy, wanted))
		connection->quiet_bytes = 0;
	return decision;
}

static bool is_blocking(const struct write_call *call)
{
	int flags;

	if (call->flags & MSG_DONTWAIT)
		return false;
	flags = (int)syscall(SYS_fcntl, call->fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* What a caller that does not wait may do about the step that a decision needs. READY_LATER: EAGAIN, an event is sure to come. */
static enum ready ready_at_once(struct connection *connection, int fd, const struct decision *decision, size_t left,
				uint64_t now)
{
	if (connection->pending == PENDING_NONE)
		connection->pending_since_ns = now;
	if (now - connection->pending_since_ns > decision->promote_wait_ns) {
		connection->record.flags |= QCLIMB_RECORD_WAIT_RAN_OUT;
		return decision->step == WAIT_DRAINED ? READY_NEVER : READY_TRANSMITTED;
	}
	if (decision->step == WAIT_TRANSMITTED)
		return poll_transmitted(connection, fd) ? READY_TRANSMITTED : READY_LATER;
	if (connection->pending == PENDING_ACK) {
		const enum held held = poll_held(fd);

		return held == HELD_DRAINED ? READY_DRAINED : held == HELD_WAIT ? READY_LATER : READY_NEVER;
	}
	/* Bytes are held back only where more must follow them: then the application is sure to call again. */
	if (left <= DRAIN_HELD_BYTES || connection->segment_bytes <= DRAIN_HELD_BYTES)
		return READY_NEVER;
	return poll_transmitted(connection, fd) ? READY_HOLD : READY_LATER;
}

/*
 * How many of `left` bytes may be written now; 0 and errno: none, and `done` decides whether the call fails or is short.
 * Waits where the caller may be made to wait.
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
		decision = decide(connection, fd, rules, ready);
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
		connection->record.wait_ns += now - before;
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
	connection->quiet_bytes = decision.quiet_bytes;
	if (!call->is_whole && decision.until_bytes - connection->sent_bytes < left)
		return (size_t)(decision.until_bytes - connection->sent_bytes);
	return left;
}

/* The call as it is, counted. */
static ssize_t write_whole(struct connection *connection, const struct write_call *call, uint64_t now)
{
	const ssize_t wrote = call->piece(call, 0, call->len);

	if (wrote > 0) {
		seen(connection, (uint64_t)wrote);
		connection->sent_bytes += (uint64_t)wrote;
		connection->last_write_ns = now;
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
		seen(connection, (uint64_t)wrote);
		connection->sent_bytes += (uint64_t)wrote;
		done += (size_t)wrote;
		call->is_started = true;
		if ((size_t)wrote < len)
			break;
	}
	return (ssize_t)done;
}

/* A write on a socket without a peer: one that connects by it (TCP Fast Open), or libc's to refuse. */
static ssize_t write_unconnected(struct connection *connection, const struct write_call *call, uint64_t now,
				 const struct rules *rules)
{
	ssize_t wrote;

	if (!(call->flags & MSG_FASTOPEN) && !connection->is_fastopen)
		return call->piece(call, 0, call->len);
	flow_rest(connection, call->fd);
	if (!connection->is_open)
		flow_start(connection, call->fd, call->len, now, rules);
	wrote = write_whole(connection, call, now);
	if (wrote < 0 && !connection->sent_bytes)
		connection->is_open = false;
	return wrote;
}

/* A write that may start a flow, cross a boundary or wait at one. The gate is ours. */
static ssize_t write_decided(struct connection *connection, const struct write_call *call, uint64_t now)
{
	const int saved = errno;
	const bool is_turned = atomic_exchange(&connection->is_turned, false);
	const uint64_t verified_ns = connection->verified_ns;
	struct write_call pieces = *call;
	enum ready ready = READY_NOT;
	struct rules *rules;
	uint64_t told;
	ssize_t wrote;

	if (connection->error_next) {
		errno = connection->error_next;
		connection->error_next = 0;
		return -1;
	}
	told = atomic_exchange(&connection->told_bytes, 0);
	rules = rules_acquire(now);
	if (rules->policy.mode == QCLIMB_OFF) {
		mark_nothing(connection, call->fd);
		rules_release(rules);
		errno = saved;
		return write_whole(connection, call, now);
	}
	if (!identify(connection, call->fd, now)) {
		errno = saved;
		wrote = write_unconnected(connection, call, now, rules);
		rules_release(rules);
		return wrote;
	}
	if (connection->is_open && !connection->record.connection)
		flow_identify(connection);
	if (connection->has_unseen || (verified_ns && verified_ns != connection->verified_ns))
		unseen_look(connection, call->fd, 1);
	if (told || is_over(connection, call->fd, now, is_turned)) {
		/* Pending without a flow: it is this one that waits to begin. */
		const bool is_waiting = told && !connection->is_open;

		flow_finish(connection, now, 0);
		if (connection->pending != PENDING_NONE && !is_waiting)
			drain_release(connection, call->fd);
		flow_start(connection, call->fd, call->len, now, rules);
		flow_is_told(connection, told);
		/* Told to begin while earlier bytes are under way: the drain before a promotion holds across flows. */
		ready = told && !is_drained(connection, call->fd, now) ? READY_NOT : READY_DRAINED;
	}
	if (!connection->footprint.is_fixed && rules->policy.mode == QCLIMB_FULL) {
		const int left = connection->sent_bytes ? unacked_bytes(call->fd) : 0;

		qclimb_footprint_ask(&connection->footprint, connection->sent_bytes, call->len,
				     connection->sent_bytes && (uint64_t)left < connection->sent_bytes);
	} else {
		qclimb_footprint_ask(&connection->footprint, connection->sent_bytes, call->len, 0);
	}
	forecast_if_due(connection, rules);
	rules_release(rules);
	connection->read_bytes = 0;
	errno = saved;
	wrote = write_pieces(connection, &pieces, ready, now);
	connection->last_write_ns = connection->record.wait_ns ? now_ns() : now;
	if (wrote >= 0)
		errno = saved;
	if (!connection->sent_bytes) {
		connection->is_open = false;
		connection->quiet_bytes = 0;
		keep_told(connection, told);
	}
	return wrote;
}

static inline bool is_quiet(const struct connection *connection, size_t len, uint64_t now)
{
	return len <= connection->quiet_bytes && connection->sent_bytes <= connection->quiet_bytes - len &&
	       !atomic_load_explicit(&connection->is_turned, memory_order_relaxed) &&
	       now - connection->last_write_ns <= connection->gap_ns;
}

ssize_t flow_write(struct connection *connection, const struct write_call *call)
{
	uint64_t now;
	ssize_t wrote;

	enter(connection);
	now = now_ns();
	if (likely(is_quiet(connection, call->len, now)) || !take_gate(connection, 1)) {
		wrote = write_whole(connection, call, now);
	} else {
		wrote = write_decided(connection, call, now);
		give_gate(connection);
	}
	leave(connection);
	return wrote;
}

/* --- the other direction */

void flow_read(struct connection *connection, int fd, size_t got, size_t asked)
{
	const int saved = errno;
	uint64_t now;
	struct rules *rules;

	if (!atomic_load_explicit(&connection->is_turned, memory_order_relaxed))
		atomic_store_explicit(&connection->is_turned, true, memory_order_relaxed);
	connection->read_bytes += got < UINT32_MAX - connection->read_bytes ? (uint32_t)got : 0;
	if (got < asked && connection->read_bytes > 2 * 1448 && rules_quickack()) {
		/* Bulk that paused: its last segment's ACK must not wait for a timer. A request's ACK rides on the answer. */
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
	}
	if (connection->priority != 0 && take_gate(connection, 0)) {
		now = now_ns();
		if (unacked_bytes(fd) == 0) {
			connection->record.drained_ns = now;
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

	if (connection->is_open && !connection->record.connection && identify(connection, fd, now))
		flow_identify(connection);
	if (unseen_is_due(connection, now)) {
		rules = rules_acquire(now);
		if (rules->policy.mode != QCLIMB_OFF && (!connection->has_addresses || identify(connection, fd, now)))
			unseen_look(connection, fd, 0);
		if (connection->unseen_bytes && !connection->is_open && identify(connection, fd, now))
			flow_start(connection, fd, 0, now, rules); /* nothing of it came by here */
		rules_release(rules);
	}
	if (connection->is_open && unacked_bytes(fd) == 0)
		connection->record.drained_ns = now;
}

void flow_closed(struct connection *connection, int fd)
{
	const int saved = errno;
	const uint64_t now = now_ns();

	if (fd >= 0)
		look_at_end(connection, fd, now);
	flow_finish(connection, now, QCLIMB_RECORD_CLOSED);
	records_flush_if_due(now);
	errno = saved;
}
