#include "optax/withheld.h"

#include "tell/log.h"
#include "optax/turn.h"

#define LOOPS 4096 /* epoll descriptors; with larger numbers reads go through */
#define SMALLS 512 /* flows in line of one process; more are withheld only from callers that wait */
#define BUSY_SPINS 1000
#define READS (EPOLLIN | EPOLLRDNORM)

/*
 * An event loop, by its descriptor. `asleep` and `masked` look at each other: one of two threads that come at once sees
 * the other.
 */
static struct loop {
	_Atomic uint32_t asleep; /* threads that wait for as long as the application said */
	_Atomic uint32_t masked; /* registrations that are changed */
	atomic_bool is_ours; /* was waited on through us */
} loops[LOOPS];

static _Atomic(struct connection *) smalls[SMALLS];
static _Atomic uint32_t smalls_used; /* places below were ever taken */

static bool try_busy(struct received *flow)
{
	return !atomic_exchange(&flow->is_busy, true);
}

static void give_busy(struct received *flow)
{
	atomic_store(&flow->is_busy, false);
}

static struct loop *loop_of(const struct received *flow)
{
	const int loop = atomic_load(&flow->loop);

	return loop > 0 && loop <= LOOPS ? &loops[loop - 1] : NULL;
}

static bool can_be_masked(const struct received *flow, struct loop *loop)
{
	return loop && atomic_load(&loop->is_ours) && flow->event.events & READS &&
	       !(flow->event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE));
}

static int tell_kernel(const struct received *flow, bool is_masked)
{
	struct epoll_event event = flow->event;

	if (is_masked)
		event.events &= ~(uint32_t)READS;
	return (int)qclimb_syscall(SYS_epoll_ctl, atomic_load(&flow->loop) - 1, EPOLL_CTL_MOD, flow->loop_fd, &event);
}

/* The registration is as the application wants it, or gone. Busy is ours. */
static void unmasked(struct received *flow, struct loop *loop)
{
	if (atomic_exchange(&flow->is_masked, false) && loop)
		atomic_fetch_sub(&loop->masked, 1);
}

static bool mask(struct received *flow)
{
	struct loop *loop = loop_of(flow);
	bool is_done = false;

	if (!can_be_masked(flow, loop) || !try_busy(flow))
		return false;
	if (atomic_load(&flow->is_masked)) {
		is_done = true;
	} else {
		atomic_fetch_add(&loop->masked, 1);
		is_done = !atomic_load(&loop->asleep) && !tell_kernel(flow, true);
		if (is_done) {
			atomic_store(&flow->is_masked, true);
			LOG("optax: fd=%d masked", flow->loop_fd);
			if (!atomic_load(
				    &flow->place)) { /* withheld_end() came between: it may have seen nothing to undo */
				(void)tell_kernel(flow, false);
				unmasked(flow, loop);
				is_done = false;
			}
		} else {
			atomic_fetch_sub(&loop->masked, 1);
		}
	}
	give_busy(flow);
	return is_done;
}

/* Waits for who is busy with it, which is for a system call. */
static void take_busy(struct received *flow)
{
	for (int spins = 0; !try_busy(flow) && spins < BUSY_SPINS; spins++)
		(void)qclimb_syscall(SYS_sched_yield);
}

static void unmask(struct received *flow)
{
	if (!atomic_load(&flow->is_masked))
		return;
	take_busy(flow);
	if (atomic_load(&flow->is_masked)) {
		(void)tell_kernel(flow, false);
		unmasked(flow, loop_of(flow));
	}
	give_busy(flow);
}

bool withheld_event_is_sure(const struct connection *connection)
{
	struct received *flow = received_of(connection);
	const int saved = errno;
	bool is_sure;

	if (!flow)
		return false;
	is_sure = atomic_load(&flow->loop) == LOOP_NONE ? atomic_load(&flow->is_polled) : mask(flow);
	errno = saved;
	return is_sure;
}

void withheld_begin(struct connection *connection)
{
	struct received *flow = received_of(connection);

	for (uint32_t i = 0; flow && i < SMALLS; i++) {
		struct connection *none = NULL;
		uint32_t used = i;

		if (!atomic_compare_exchange_strong(&smalls[i], &none, connection))
			continue;
		atomic_store(&flow->place, i + 1);
		atomic_compare_exchange_strong(&smalls_used, &used, i + 1);
		return;
	}
}

void withheld_end(struct connection *connection, bool is_open)
{
	struct received *flow = received_of(connection);
	const int saved = errno;
	uint32_t place;

	if (!flow)
		return;
	place = atomic_exchange(&flow->place, 0);
	if (place)
		atomic_store(&smalls[place - 1], NULL);
	/* A thread that is masking it at this moment sees that it has no place, or we see that it is masked. */
	if (is_open)
		unmask(flow);
	else
		unmasked(flow, loop_of(flow)); /* the kernel forgets the registration with the socket */
	errno = saved;
}

static void lower(uint64_t *slice_ns, uint64_t now, uint64_t due_ns)
{
	const uint64_t left_ns = due_ns > now ? due_ns - now : 0;
	const uint64_t slice = left_ns < WITHHELD_SLICE_NS ? left_ns : WITHHELD_SLICE_NS;

	if (slice < *slice_ns)
		*slice_ns = slice;
}

bool withheld_from_poll(int fd, uint64_t now, uint64_t *slice_ns)
{
	const struct connection *connection = connection_of(fd);
	struct received *flow = received_of(connection);
	uint64_t due_ns;

	if (!flow)
		return false;
	atomic_store_explicit(&flow->is_polled, true, memory_order_relaxed);
	if (!turn_is_later(connection, now, &due_ns))
		return false;
	lower(slice_ns, now, due_ns);
	LOG("optax: fd=%d left out", fd);
	return true;
}

/* Masks and unmasks; how long one may wait until something may be due. */
static uint64_t bring_up_to_date(int loop, uint64_t now)
{
	const uint32_t used = atomic_load(&smalls_used);
	uint64_t slice_ns = WITHHELD_FOREVER, due_ns;

	for (uint32_t i = 0; i < used; i++) {
		struct connection *connection = atomic_load(&smalls[i]);
		struct received *flow = received_of(connection);

		if (!flow || atomic_load(&flow->loop) != loop + 1)
			continue;
		if (!turn_is_later(connection, now, &due_ns))
			unmask(flow);
		else if (mask(flow))
			lower(&slice_ns, now, due_ns);
	}
	return slice_ns;
}

uint64_t withheld_sleep(int loop, uint64_t now, bool *is_asleep)
{
	const int saved = errno;
	uint64_t slice_ns;

	*is_asleep = false;
	if (loop < 0 || loop >= LOOPS)
		return WITHHELD_FOREVER;
	atomic_store_explicit(&loops[loop].is_ours, true, memory_order_relaxed);
	slice_ns = bring_up_to_date(loop, now);
	errno = saved;
	if (slice_ns != WITHHELD_FOREVER)
		return slice_ns;
	atomic_fetch_add(&loops[loop].asleep, 1);
	if (!atomic_load(&loops[loop].masked)) {
		*is_asleep = true;
		return WITHHELD_FOREVER;
	}
	atomic_fetch_sub(&loops[loop].asleep, 1);
	return WITHHELD_SLICE_NS; /* another thread's doing: somebody must look again, and it may be this one */
}

void withheld_wake(int loop)
{
	atomic_fetch_sub(&loops[loop].asleep, 1);
}

int withheld_ctl(struct connection *connection, epoll_ctl_call *ctl, int loop, int operation, int fd,
		 struct epoll_event *event)
{
	struct received *flow = received_of(connection);
	bool is_registered, is_masked;
	int result;

	if (!flow || (operation != EPOLL_CTL_DEL && !event))
		return ctl(loop, operation, fd, event);
	take_busy(flow);
	is_registered = atomic_load(&flow->loop) == loop + 1 && flow->loop_fd == fd;
	is_masked = is_registered && atomic_load(&flow->is_masked);
	if (operation == EPOLL_CTL_MOD && is_masked && event->events & READS && !(event->events & EPOLLONESHOT)) {
		struct epoll_event without = *event;

		without.events &= ~(uint32_t)READS;
		result = ctl(loop, operation, fd, &without);
	} else {
		result = ctl(loop, operation, fd, event);
		if (!result && is_masked)
			unmasked(flow, loop_of(flow));
	}
	if (!result && operation == EPOLL_CTL_DEL && is_registered) {
		atomic_store(&flow->loop, LOOP_NONE);
	} else if (!result && operation == EPOLL_CTL_ADD && atomic_load(&flow->loop) != LOOP_NONE) {
		if (atomic_load(&flow->is_masked)) {
			(void)tell_kernel(flow, false);
			unmasked(flow, loop_of(flow));
		}
		atomic_store(&flow->loop, LOOP_SEVERAL);
	} else if (!result && operation != EPOLL_CTL_DEL && (is_registered || operation == EPOLL_CTL_ADD)) {
		flow->event = *event;
		flow->loop_fd = fd;
		atomic_store(&flow->loop, loop + 1);
	}
	give_busy(flow);
	return result;
}

void withheld_loop_closed(int loop)
{
	if (loop < 0 || loop >= LOOPS || !atomic_load(&loops[loop].is_ours))
		return;
	atomic_store(&loops[loop].is_ours, false);
	for (uint32_t i = 0; i < SMALLS; i++) {
		struct received *flow = received_of(atomic_load(&smalls[i]));

		if (flow && atomic_load(&flow->loop) == loop + 1) {
			unmasked(flow, &loops[loop]);
			atomic_store(&flow->loop, LOOP_NONE);
		}
	}
}
