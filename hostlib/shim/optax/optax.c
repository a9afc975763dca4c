#include "optax/optax.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "socket/drain.h"
#include "optax/line.h"
#include "tell/log.h"
#include "rules/rules.h"
#include "optax/turn.h"
#include "optax/window.h"
#include "optax/withheld.h"
#include "optax/within.h"

#define FREE_BYTES 2048u /* of a flow, never withheld: no more than the smallest window lets in at first */
#define SHORT_BYTES 16384u /* a kept connection's flow of so many: nor the one after it */
#define QUIET_NS (250 * QCLIMB_NS_PER_MS) /* a pause after which bytes are another flow's */
#define PEEK_BYTES 1024u
#define WAIT_NS (5 * QCLIMB_NS_PER_MS) /* the rates may have changed */

atomic_bool qclimb_optax_on;
static _Atomic uint64_t small_bytes = 1 << 20;
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

/* --- the window */

/*
 * A large flow's: the kernel's, with a bound where the line says so, after the window was the kernel's own. The kernel
 * lifts it as it tunes the buffer, and so it is set again.
 */
static void set_larges_window(struct received *flow, int fd, uint64_t now)
{
	struct line_view view;

	line_counts_large(&flow->counted, now);
	if (line_look(now, &view)->large_window && (flow->window == WINDOW_KERNELS || flow->window == WINDOW_LARGE))
		window_large(flow, fd, view.large_window, now);
	else
		window_kernels(flow, fd);
}

/* A small flow's, by where its task stands. */
static void set_smalls_window(struct received *flow, int fd, uint64_t now)
{
	struct line_view view;

	if (!line_has_place()) /* the line is full, or a large flow has its task leave */
		window_kernels(flow, fd);
	else if (line_look(now, &view)->is_free)
		window_free(flow, fd);
	else if (view.rank)
		window_least(flow, fd);
	else
		window_heads(flow, fd, view.window);
}

void optax_prepare(struct connection *connection, int fd)
{
	struct received *flow = received_of(connection);
	const int saved = errno;

	if (!flow || flow->window != WINDOW_KERNELS)
		return;
	atomic_store_explicit(&flow->where, WHERE_NOT_ASKED, memory_order_relaxed);
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

/* SO_RCVTIMEO, UINT64_MAX if none. */
static uint64_t timeout_of(int fd)
{
	struct timeval time = { 0, 0 };

	if (sys_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) || (!time.tv_sec && !time.tv_usec))
		return UINT64_MAX;
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * QCLIMB_NS_PER_US;
}

bool optax_withholds(int fd, int flags)
{
	const struct connection *connection = connection_of(fd);
	const int saved = errno;
	uint64_t now, due_ns, end_ns = 0;
	struct line_view view;

	if (!connection || flags & (MSG_PEEK | MSG_ERRQUEUE | MSG_OOB))
		return false;
	for (;;) {
		now = now_ns();
		if (!turn_is_later(connection, now, &due_ns))
			break;
		if (!end_ns) {
			const uint64_t timeout_ns = timeout_of(fd);

			LOG("optax: fd=%d withheld us=%llu", fd,
			    (unsigned long long)((due_ns - now) / QCLIMB_NS_PER_US));

			if (!is_blocking(fd, flags)) {
				errno = EAGAIN;
				return withheld_event_is_sure(connection);
			}
			end_ns = timeout_ns < DELAY_MOST_NS ? now + timeout_ns : now + DELAY_MOST_NS;
		}
		if (now >= end_ns)
			break;
		due_ns = due_ns < end_ns ? due_ns : end_ns;
		line_look(now, &view);
		if (line_wait(view.turn, due_ns - now < WAIT_NS ? due_ns - now : WAIT_NS))
			break; /* a signal: libc's read finds what it would have found */
	}
	errno = saved;
	return false;
}

/* The flow under way is over. */
static void end_flow(struct connection *connection, struct received *flow, uint64_t now, bool is_open)
{
	uint32_t kind = atomic_load(&flow->kind);

	if (atomic_load(&flow->got_bytes))
		atomic_store(&flow->last_bytes, atomic_exchange(&flow->got_bytes, 0));
	if (kind == KIND_KERNELS || !atomic_compare_exchange_strong(&flow->kind, &kind, KIND_FREE))
		return;
	withheld_end(connection, is_open);
	if (kind == KIND_SMALL)
		line_count(-1, 0, now);
	else if (kind == KIND_LARGE)
		line_count(0, -1, now);
}

/* The policy's word on what is small. */
static uint64_t small_coflow_bytes(uint64_t now)
{
	struct rules *rules = rules_acquire(now);
	const uint64_t bytes = rules->policy.small_coflow_bytes;

	rules_release(rules);
	return bytes;
}

/*
 * A connection's next flow is expected to be like its last one: a short one is not withheld either, up to twice as many
 * bytes.
 */
static uint64_t free_bytes(const struct received *flow)
{
	const uint64_t last = atomic_load_explicit(&flow->last_bytes, memory_order_relaxed);

	return last > SHORT_BYTES || 2 * last < FREE_BYTES ? FREE_BYTES : 2 * last;
}

static void grow(struct connection *connection, struct received *flow, uint64_t got, uint64_t now)
{
	const uint64_t bytes = atomic_fetch_add(&flow->got_bytes, got) + got;
	uint32_t kind = atomic_load(&flow->kind);

	if (kind == KIND_FREE && bytes > free_bytes(flow)) {
		const uint64_t small = small_coflow_bytes(now);
		const bool is_small = qclimb_task_is_small(atomic_load(&flow->last_bytes), small);

		atomic_store_explicit(&small_bytes, small, memory_order_relaxed);
		if (atomic_compare_exchange_strong(&flow->kind, &kind, is_small ? KIND_SMALL : KIND_LARGE)) {
			kind = is_small ? KIND_SMALL : KIND_LARGE;
			line_count(is_small, !is_small, now);
			if (is_small)
				withheld_begin(connection);
		}
	}
	if (kind == KIND_SMALL &&
	    !qclimb_task_is_small(bytes, atomic_load_explicit(&small_bytes, memory_order_relaxed)) &&
	    atomic_compare_exchange_strong(&flow->kind, &kind, KIND_LARGE)) {
		withheld_end(connection, true);
		line_count(-1, 1, now);
	}
}

/* Asked once a connection. */
static bool is_here(struct received *flow, int fd)
{
	uint32_t where = atomic_load_explicit(&flow->where, memory_order_relaxed);

	if (where == WHERE_NOT_ASKED) {
		where = !takes_loopback && is_within_host(fd) ? WHERE_HOST : WHERE_LINK;
		atomic_store_explicit(&flow->where, where, memory_order_relaxed);
	}
	return where == WHERE_HOST;
}

void optax_read(struct connection *connection, int fd, ssize_t got, size_t asked, int flags)
{
	struct received *flow = received_of(connection);
	const int saved = errno;
	const uint64_t now = now_ns();
	struct line_view view;
	enum line_flow place = LINE_OTHERS;

	if (!flow || flags & MSG_ERRQUEUE)
		return;
	if (connection->is_foreign || atomic_load_explicit(&flow->kind, memory_order_relaxed) == KIND_KERNELS) {
		if (flow->window != WINDOW_KERNELS)
			optax_release(connection, fd); /* another process reads it too, or ours did before a fork */
		if (got > 0 && !(flags & MSG_PEEK) && !is_here(flow, fd))
			line_hears((uint64_t)got, now);
		return;
	}
	if (flags & MSG_PEEK) {
		if (asked > PEEK_BYTES)
			optax_release(connection, fd); /* it may wait for more than a small buffer holds */
		return;
	}
	if (got <= 0) {
		if (got == 0 && asked)
			end_flow(connection, flow, now, true);
		errno = saved;
		return;
	}
	if (is_here(flow, fd)) {
		optax_release(connection, fd);
		return;
	}
	if (connection->last_write_ns != flow->written_ns ||
	    now - atomic_load_explicit(&flow->read_ns, memory_order_relaxed) > QUIET_NS) {
		flow->written_ns = connection->last_write_ns;
		end_flow(connection, flow, now, true);
	}
	if (atomic_load(&flow->kind) == KIND_SMALL && line_has_place())
		place = line_look(now, &view)->rank ? LINE_BEHIND : LINE_HEADS;
	grow(connection, flow, (uint64_t)got, now);
	if (atomic_load(&flow->kind) == KIND_LARGE)
		place = LINE_LARGE;
	atomic_store_explicit(&flow->read_ns, now, memory_order_relaxed);
	line_received((uint64_t)got, place, now);
	window_read(flow, (uint64_t)got);
	switch (atomic_load(&flow->kind)) {
	case KIND_LARGE:
		set_larges_window(flow, fd, now);
		break;
	case KIND_SMALL:
		set_smalls_window(flow, fd, now);
		break;
	case KIND_FREE:
		if (free_bytes(flow) > FREE_BYTES)
			window_kernels(flow, fd);
		break;
	default:
		break;
	}
	errno = saved;
}

void optax_closed(struct connection *connection)
{
	struct received *flow = received_of(connection);
	const int saved = errno;

	if (!flow)
		return;
	end_flow(connection, flow, now_ns(), false);
	atomic_store(&flow->kind, KIND_KERNELS);
	errno = saved;
}

void optax_release(struct connection *connection, int fd)
{
	struct received *flow = received_of(connection);
	const int saved = errno;

	if (!flow)
		return;
	end_flow(connection, flow, now_ns(), true);
	atomic_store(&flow->kind, KIND_KERNELS);
	window_kernels(flow, fd);
	errno = saved;
}

/* As after a peek: it may wait for more than a small buffer holds. */
void optax_told_unread(struct connection *connection, int fd, int bytes)
{
	const struct received *flow = received_of(connection);

	if (flow && bytes > (int)PEEK_BYTES && atomic_load_explicit(&flow->kind, memory_order_relaxed) != KIND_KERNELS)
		optax_release(connection, fd);
}

bool optax_shows_rcvbuf(const struct connection *connection, int *bytes)
{
	const struct received *flow = received_of(connection);

	if (!flow || flow->window == WINDOW_KERNELS)
		return false;
	*bytes = flow->old_rcvbuf;
	return true;
}
