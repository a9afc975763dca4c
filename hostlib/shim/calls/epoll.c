/*
 * epoll_ctl, epoll_wait, epoll_pwait, epoll_pwait2: where reads of a socket are withheld (OPTAX), its event loop does
 * not hear of what can be read, until they are due. Without OPTAX libc's calls.
 */
#include "calls/real.h"
#include "optax/optax.h"

#include <sys/epoll.h>

#include "optax/withheld.h"

QCLIMB_EXPORT int epoll_ctl(int loop, int operation, int fd, struct epoll_event *event)
{
	struct connection *connection = optax_is_on() ? connection_of(fd) : NULL;

	if (!connection)
		return real()->epoll_ctl(loop, operation, fd, event);
	return withheld_ctl(connection, real()->epoll_ctl, loop, operation, fd, event);
}

/* One wait, as the application asked for it. */
struct wait {
	int loop;
	struct epoll_event *events;
	int room;
	const struct timespec *timeout; /* NULL: for ever */
	const sigset_t *mask;
};

/* Rounded up: early would be a spin. */
static int wait_for(const struct wait *wait, uint64_t ns)
{
	const uint64_t ms = ns / QCLIMB_NS_PER_MS + (ns % QCLIMB_NS_PER_MS != 0);

	return real()->epoll_pwait(wait->loop, wait->events, wait->room,
				   ns == WITHHELD_FOREVER ? -1
				   : ms < INT32_MAX	  ? (int)ms
							  : INT32_MAX,
				   wait->mask);
}

/* is_exact: by epoll_pwait2, where nothing is withheld. */
static int wait_in_slices(const struct wait *wait, bool is_exact)
{
	uint64_t now = now_ns();
	const uint64_t end_ns = withheld_end_of(wait->timeout, now);

	for (;; is_exact = false, now = now_ns()) {
		bool is_asleep;
		const uint64_t slice_ns = withheld_sleep(wait->loop, now, &is_asleep);
		const uint64_t left_ns = withheld_left_of(end_ns, now);
		int found;

		if (is_exact && left_ns <= slice_ns)
			found = real()->epoll_pwait2(wait->loop, wait->events, wait->room, wait->timeout, wait->mask);
		else
			found = wait_for(wait, left_ns < slice_ns ? left_ns : slice_ns);
		if (is_asleep)
			withheld_wake(wait->loop);
		if (found || (left_ns <= slice_ns && left_ns != WITHHELD_FOREVER))
			return found;
	}
}

static int wait_ms(int loop, struct epoll_event *events, int room, int timeout_ms, const sigset_t *mask)
{
	const struct timespec time = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	const struct wait wait = { loop, events, room, timeout_ms < 0 ? NULL : &time, mask };

	return wait_in_slices(&wait, false);
}

QCLIMB_EXPORT int epoll_wait(int loop, struct epoll_event *events, int room, int timeout_ms)
{
	return optax_is_on() ? wait_ms(loop, events, room, timeout_ms, NULL)
			     : real()->epoll_wait(loop, events, room, timeout_ms);
}

QCLIMB_EXPORT int epoll_pwait(int loop, struct epoll_event *events, int room, int timeout_ms, const sigset_t *mask)
{
	return optax_is_on() ? wait_ms(loop, events, room, timeout_ms, mask)
			     : real()->epoll_pwait(loop, events, room, timeout_ms, mask);
}

/* Younger than some libc's header. */
QCLIMB_EXPORT int epoll_pwait2(int loop, struct epoll_event *events, int room, const struct timespec *timeout,
			       const sigset_t *mask);
QCLIMB_EXPORT int epoll_pwait2(int loop, struct epoll_event *events, int room, const struct timespec *timeout,
			       const sigset_t *mask)
{
	const struct wait wait = { loop, events, room, timeout, mask };

	if (!real()->epoll_pwait2) {
		errno = ENOSYS;
		return -1;
	}
	return optax_is_on() ? wait_in_slices(&wait, true) : real()->epoll_pwait2(loop, events, room, timeout, mask);
}
