#include "optax/optax.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "socket/drain.h"
#include "optax/line.h"
#include "tell/log.h"
#include "rules/rules.h"
#include "optax/window.h"
#include "optax/withheld.h"

#define FREE_BYTES 2048u /* of a flow, never withheld: no more than the smallest window lets in at first */
#define SHORT_BYTES 16384u /* a kept connection's flow of so many: nor the one after it */
#define QUIET_NS (250 * QCLIMB_NS_PER_MS) /* a pause after which bytes are another flow's */
#define PEEK_BYTES 1024u
#define WAIT_NS (5 * QCLIMB_NS_PER_MS) /* the rates may have changed */

atomic_bool qclimb_optax_on;
static bool takes_loopback; /* set at the start */

/* --- start */

/* "on" or the link's rate in Mb/s; 0: neither. */
static bool setting_of(const char *word, uint64_t *capacity)
{
	char *end;
	unsigned long mbps;

	*capacity = 0;
	if (!word || !*word)
		return false;
	if (!strcmp(word, "on"))
		return true;
	mbps = strtoul(word, &end, 10);
	if (*end || !mbps || mbps > 10000000)
		return false;
	*capacity = mbps * UINT64_C(125000) * 1448 / 1514; /* of bytes that reads see */
	return true;
}

static bool policy_asks(void)
{
	struct rules *rules = rules_acquire(now_ns());
	const bool asks = rules->policy.mode >= QCLIMB_PIAS && rules->policy.flags & QCLIMB_OPTAX;

	rules_release(rules);
	return asks;
}

void optax_start(const char *setting, const char *task)
{
	uint64_t capacity;
	const bool is_asked = setting_of(setting, &capacity);
	const char *loopback = secure_getenv("QCLIMB_OPTAX_LOOPBACK");

	takes_loopback = loopback && !strcmp(loopback, "on");

	if ((policy_asks() || (is_asked && !rules_are_managed())) && line_open(task, capacity))
		atomic_store(&qclimb_optax_on, true);
}

void optax_after_fork(void)
{
	if (!optax_is_on())
		return;
	line_after_fork();
	received_after_fork();
}

void optax_end(void)
{
	if (atomic_exchange(&qclimb_optax_on, false))
		line_end();
}

/* --- the first window */

void optax_prepare(struct connection *connection, int fd)
{
	struct received *flow = received_of(connection);
	const int saved = errno;

	if (!flow || flow->window != WINDOW_KERNELS)
		return;
	relaxed_set(flow->where, WHERE_NOT_ASKED);
	if (window_begin(flow, fd, line_begins_free(now_ns())))
		atomic_store(&flow->kind, KIND_FREE);
	errno = saved;
}

void optax_accepted(struct connection *connection, struct connection *listener)
{
	struct received *flow = received_of(connection);
	const struct received *from = received_of(listener);

	if (!flow || !from || from->window == WINDOW_KERNELS)
		return;
	flow->window = from->window;
	flow->old_rcvbuf = from->old_rcvbuf;
	atomic_store(&flow->kind, KIND_FREE);
}

/* --- reads */

/* How long a read may wait in all: SO_RCVTIMEO at most. */
static uint64_t longest_wait(int fd)
{
	struct timeval time = { 0, 0 };
	uint64_t timeout_ns;

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	timeout_ns = (uint64_t)time.tv_sec * QCLIMB_NS_PER_S + (uint64_t)time.tv_usec * QCLIMB_NS_PER_US;
	return timeout_ns && timeout_ns < LINE_DELAY_MOST_NS ? timeout_ns : LINE_DELAY_MOST_NS;
}

bool optax_withholds(int fd, int flags)
{
	const struct connection *connection = connection_of(fd);
	const int saved = errno;
	uint64_t now, due_ns, end_ns = 0;

	if (!connection || flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB))
		return false;
	while (withheld_now(connection, now = now_ns(), &due_ns)) {
		if (!end_ns) {
			LOG("optax: fd=%d withheld us=%llu", fd,
			    (unsigned long long)((due_ns - now) / QCLIMB_NS_PER_US));
			if (!is_blocking(fd, flags)) {
				if (!withheld_event_is_sure(connection))
					break;
				errno = EAGAIN;
				return true;
			}
			end_ns = now + longest_wait(fd);
		}
		if (now >= end_ns)
			break;
		due_ns = due_ns < end_ns ? due_ns : end_ns;
		if (line_wait(due_ns - now < WAIT_NS ? due_ns - now : WAIT_NS))
			break; /* a signal: libc's read finds what it would have found */
	}
	errno = saved;
	return false;
}

/* The policy's word on what is small. */
static bool is_small(uint64_t bytes, uint64_t now)
{
	struct rules *rules = rules_acquire(now);
	const bool is_it = qclimb_task_is_small(bytes, rules->policy.small_coflow_bytes);

	rules_release(rules);
	return is_it;
}

/* From one kind to another; the one that it has then, another thread's if that was first. */
static uint32_t become(struct connection *connection, uint32_t was, uint32_t kind, uint64_t now, bool is_open)
{
	int small, large;

	if (was == kind || !atomic_compare_exchange_strong(&received_of(connection)->kind, &was, kind))
		return was;
	if (was == KIND_SMALL)
		withheld_end(connection, is_open);
	small = (kind == KIND_SMALL) - (was == KIND_SMALL);
	large = (kind == KIND_LARGE) - (was == KIND_LARGE);
	if (small || large) /* else a count that is old by now could take the place from another thread's flow */
		line_count(small, large, now);
	if (kind == KIND_SMALL) {
		withheld_begin(connection);
		if (atomic_load(&received_of(connection)->kind) != KIND_SMALL)
			withheld_end(connection, is_open); /* another thread ended it before it stood there */
	}
	return kind;
}

/* The flow under way is over; `kind`: what comes after it. */
static void end_flow(struct connection *connection, uint32_t kind, uint64_t now, bool is_open)
{
	struct received *flow = received_of(connection);
	uint32_t was = atomic_load(&flow->kind);

	if (atomic_load(&flow->got_bytes))
		atomic_store(&flow->last_bytes, atomic_exchange(&flow->got_bytes, 0));
	while (was != KIND_KERNELS && was != kind)
		was = become(connection, was, kind, now, is_open);
}

/*
 * A connection's next flow is expected to be like its last one: a short one is not withheld either, up to twice as many
 * bytes.
 */
static uint64_t free_bytes(const struct received *flow)
{
	const uint64_t last = relaxed_get(flow->last_bytes);

	return last > SHORT_BYTES || 2 * last < FREE_BYTES ? FREE_BYTES : 2 * last;
}

/* The flow received more: its kind now. */
static uint32_t grow(struct connection *connection, struct received *flow, uint64_t got, uint64_t now)
{
	const uint64_t bytes = atomic_fetch_add(&flow->got_bytes, got) + got;
	uint32_t kind = atomic_load(&flow->kind);

	if (kind == KIND_FREE && bytes > free_bytes(flow))
		kind = become(connection, kind, is_small(relaxed_get(flow->last_bytes), now) ? KIND_SMALL : KIND_LARGE,
			      now, true);
	if (kind == KIND_SMALL && !is_small(bytes, now))
		kind = become(connection, kind, KIND_LARGE, now, true);
	return kind;
}

/* As whose the bytes of a flow of this kind count, if it is not large. */
static enum line_flow flow_of(uint32_t kind, uint64_t now)
{
	if (kind != KIND_SMALL || !line_has_place())
		return LINE_OTHERS;
	return line_look(now).is_behind ? LINE_BEHIND : LINE_HEADS;
}

/* The window that a flow of this kind has, by where its task stands. */
static void set_window(struct received *flow, int fd, uint32_t kind, uint64_t now)
{
	struct line_view view;

	if (kind == KIND_FREE && free_bytes(flow) > FREE_BYTES)
		window_kernels(flow, fd);
	if (kind != KIND_SMALL && kind != KIND_LARGE)
		return;
	view = line_look(now);
	if (kind == KIND_LARGE && view.large_window)
		window_large(flow, fd, view.large_window, now);
	else if (kind == KIND_LARGE)
		window_kernels(flow, fd);
	else if (view.is_free)
		window_free(flow, fd);
	else if (view.is_behind)
		window_least(flow, fd);
	else
		window_heads(flow, fd, view.window);
}

static bool is_here(struct received *flow, int fd)
{
	return !takes_loopback && received_is_within_host(flow, fd);
}

void optax_read(struct connection *connection, int fd, ssize_t got, size_t asked, int flags)
{
	struct received *flow = received_of(connection);
	const int saved = errno;
	const uint64_t now = now_ns();
	enum line_flow place;
	uint32_t kind;

	if (!flow || flags & MSG_ERRQUEUE)
		return;
	kind = relaxed_get(flow->kind);
	if (connection->is_foreign || kind == KIND_KERNELS) {
		if (flow->window != WINDOW_KERNELS)
			optax_release(connection, fd); /* another process reads it too, or ours did before a fork */
		if (got > 0 && !(flags & MSG_PEEK) && !is_here(flow, fd))
			line_received((uint64_t)got, LINE_OTHERS, NULL, now);
	} else if (flags & MSG_PEEK) {
		if (asked > PEEK_BYTES)
			optax_release(connection, fd); /* it may wait for more than a small buffer holds */
	} else if (got <= 0) {
		if (got == 0 && asked)
			end_flow(connection, KIND_FREE, now, true);
	} else if (is_here(flow, fd)) {
		optax_release(connection, fd);
	} else {
		if (connection->last_write_ns != flow->written_ns || now - relaxed_get(flow->read_ns) > QUIET_NS) {
			flow->written_ns = connection->last_write_ns;
			end_flow(connection, KIND_FREE, now, true);
		}
		place = flow_of(atomic_load(&flow->kind), now);
		kind = grow(connection, flow, (uint64_t)got, now);
		relaxed_set(flow->read_ns, now);
		line_received((uint64_t)got, kind == KIND_LARGE ? LINE_LARGE : place, &flow->counted, now);
		window_read(flow, (uint64_t)got);
		set_window(flow, fd, kind, now);
	}
	errno = saved;
}

void optax_closed(struct connection *connection)
{
	const int saved = errno;

	if (received_of(connection))
		end_flow(connection, KIND_KERNELS, now_ns(), false);
	errno = saved;
}

void optax_release(struct connection *connection, int fd)
{
	struct received *flow = received_of(connection);
	const int saved = errno;

	if (!flow)
		return;
	end_flow(connection, KIND_KERNELS, now_ns(), true);
	window_kernels(flow, fd);
	errno = saved;
}

bool optax_shows_rcvbuf(const struct connection *connection, int *bytes)
{
	const struct received *flow = received_of(connection);

	if (!flow || flow->window == WINDOW_KERNELS)
		return false;
	*bytes = flow->old_rcvbuf;
	return true;
}
