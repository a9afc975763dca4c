#include "optax/withheld.h"

#include "tell/log.h"
#include "optax/line.h"

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

static struct loop *loop_of(const struct received *flow)
{
	const int loop = atomic_load(&flow->loop);

	return loop > 0 && loop <= LOOPS ? &loops[loop - 1] : NULL;
}

bool withheld_now(const struct connection *connection, uint64_t now, uint64_t *due_ns)
{
	const struct received *flow = received_of(connection);
	struct line_view view;

	if (!flow || relaxed_get(flow->kind) != KIND_SMALL || connection->is_foreign)
		return false;
	view = line_look(now);
	*due_ns = relaxed_get(flow->read_ns) + view.delay_ns;
	return view.is_behind && now < *due_ns;
}

static int tell_kernel(const struct received *flow, bool is_masked)
{
	struct epoll_event event = flow->event;

	if (is_masked)
		event.events &= ~(uint32_t)READS;
	return (int)qclimb_syscall(SYS_epoll_ctl, atomic_load(&flow->loop) - 1, EPOLL_CTL_MOD, flow->loop_fd, &event);
}

/* The registration is as the application wants it, or gone. */
static void unmasked(struct received *flow)
{
	struct loop *loop = loop_of(flow);

	if (atomic_exchange(&flow->is_masked, false) && loop)
		atomic_fetch_sub(&loop->masked, 1);
}

static bool mask(struct received *flow)
{
	struct loop *loop = loop_of(flow);
	bool is_done;

	if (!loop || !atomic_load(&loop->is_ours) || !(flow->event.events & READS) ||
	    flow->event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE) || atomic_exchange(&flow->is_busy, true))
		return false;
	if (!atomic_load(&flow->is_masked)) {
		atomic_fetch_add(&loop->masked, 1);
		atomic_store(&flow->is_masked, true);
		/* Without a place it is no longer in line: withheld_end() sees that it is masked, or we see that. */
		if (!atomic_load(&flow->place) || atomic_load(&loop->asleep) || tell_kernel(flow, true))
			unmasked(flow);
		else
			LOG("optax: fd=%d masked", flow->loop_fd);
	}
	is_done = atomic_load(&flow->is_masked);
	atomic_store(&flow->is_busy, false);
	return is_done;
}

/* Waits for who is busy with it, which is for a system call. */
static void take_busy(struct received *flow)
{
	for (int spins = 0; atomic_exchange(&flow->is_busy, true) && spins < BUSY_SPINS; spins++)
		(void)qclimb_syscall(SYS_sched_yield);
}

/* Busy is ours. */
static void give_back(struct received *flow)
{
	if (!atomic_load(&flow->is_masked))
		return;
	(void)tell_kernel(flow, false);
	unmasked(flow);
}

static void unmask(struct received *flow)
{
	if (!atomic_load(&flow->is_masked))
		return;
	take_busy(flow);
	give_back(flow);
	atomic_store(&flow->is_busy, false);
}

bool withheld_event_is_sure(const struct connection *connection)
{
	struct received *flow = received_of(connection);

	return atomic_load(&flow->loop) == LOOP_NONE ? atomic_load(&flow->is_polled) : mask(flow);
}

void withheld_begin(struct connection *connection)
{
	struct received *flow = received_of(connection);

	for (uint32_t i = 0; i < SMALLS; i++) {
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
	const uint32_t place = atomic_exchange(&flow->place, 0);

	if (place)
		atomic_store(&smalls[place - 1], NULL);
	if (is_open)
		unmask(flow);
	else
		unmasked(flow); /* the kernel forgets the registration with the socket */
}

bool withheld_from_poll(int fd, uint64_t now)
{
	const struct connection *connection = connection_of(fd);
	struct received *flow = received_of(connection);
	uint64_t due_ns;

	if (!flow)
		return false;
	relaxed_set(flow->is_polled, true);
	if (!withheld_now(connection, now, &due_ns))
		return false;
	LOG("optax: fd=%d left out", fd);
	return true;
}

/* Masks and unmasks; whether any is masked. */
static bool bring_up_to_date(int loop, uint64_t now)
{
	const uint32_t used = atomic_load(&smalls_used);
	bool is_any = false;
	uint64_t due_ns;

	for (uint32_t i = 0; i < used; i++) {
		struct connection *connection = atomic_load(&smalls[i]);
		struct received *flow = received_of(connection);

		if (!flow || atomic_load(&flow->loop) != loop + 1)
			continue;
		if (!withheld_now(connection, now, &due_ns))
			unmask(flow);
		else if (mask(flow))
			is_any = true;
	}
	return is_any;
}

uint64_t withheld_sleep(int loop, uint64_t now, bool *is_asleep)
{
	const int saved = errno;
	bool is_any;

	*is_asleep = false;
	if (loop < 0 || loop >= LOOPS)
		return WITHHELD_FOREVER;
	relaxed_set(loops[loop].is_ours, true);
	is_any = bring_up_to_date(loop, now);
	errno = saved;
	if (is_any)
		return WITHHELD_SLICE_NS;
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
	bool is_registered;
	int result;

	if (!flow || (operation != EPOLL_CTL_DEL && !event))
		return ctl(loop, operation, fd, event);
	take_busy(flow);
	is_registered = atomic_load(&flow->loop) == loop + 1 && flow->loop_fd == fd;
	result = ctl(loop, operation, fd, event);
	if (!result && operation == EPOLL_CTL_ADD && atomic_load(&flow->loop) != LOOP_NONE) {
		give_back(flow);
		atomic_store(&flow->loop, LOOP_SEVERAL);
	} else if (!result && (is_registered || operation == EPOLL_CTL_ADD)) {
		unmasked(flow); /* the kernel knows what the application wants */
		if (operation != EPOLL_CTL_DEL)
			flow->event = *event;
		flow->loop_fd = fd;
		atomic_store(&flow->loop, operation == EPOLL_CTL_DEL ? LOOP_NONE : loop + 1);
	}
	atomic_store(&flow->is_busy, false);
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
			unmasked(flow);
			atomic_store(&flow->loop, LOOP_NONE);
		}
	}
}
