/*
 * epoll_ctl, epoll_wait, epoll_pwait, epoll_pwait2: where reads of a socket are withheld (OPTAX), its event loop does
 * not hear of what can be read, until they are due. Without OPTAX libc's calls.
 */
#include "calls/real.h"
#include "optax/optax.h"

#include <sys/epoll.h>

#include "optax/withheld.h"

#define NS_PER_S UINT64_C(1000000000)

QCLIMB_EXPORT int epoll_ctl(int loop, int operation, int fd, struct epoll_event *event)
{
	struct connection *connection = optax_is_on() ? connection_of(fd) : NULL;

	if (!connection)
		return real()->epoll_ctl(loop, operation, fd, event);
	return withheld_ctl(connection, real()->epoll_ctl, loop, operation, fd, event);
}

/* One wait, as the application asked for it, or a slice of it. */
struct wait {
	int loop;
	struct epoll_event *events;
	int room;
	int timeout_ms; /* of epoll_wait, epoll_pwait */
	const struct timespec *timeout; /* of epoll_pwait2 */
	bool is_exact; /* is epoll_pwait2 */
	const sigset_t *mask;
};

static int wait_whole(const struct wait *wait)
{
	if (wait->is_exact)
		return real()->epoll_pwait2(wait->loop, wait->events, wait->room, wait->timeout, wait->mask);
	return real()->epoll_pwait(wait->loop, wait->events, wait->room, wait->timeout_ms, wait->mask);
}

static uint64_t end_of(const struct wait *wait, uint64_t now)
{
	const struct timespec *time = wait->timeout;

	if (!wait->is_exact)
		return wait->timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)wait->timeout_ms * QCLIMB_NS_PER_MS;
	if (!time || time->tv_sec < 0 || (uint64_t)time->tv_sec > (UINT64_MAX - now) / NS_PER_S - 1)
		return UINT64_MAX;
	return now + (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static int wait_in_slices(const struct wait *wait)
{
	uint64_t now = now_ns();
	const uint64_t end_ns = end_of(wait, now);
	bool is_asleep, is_last;
	int found;

	for (bool is_first = true;; is_first = false, now = now_ns()) {
		uint64_t slice_ns = withheld_sleep(wait->loop, now, &is_asleep);
		const uint64_t left_ns = end_ns == UINT64_MAX ? UINT64_MAX : end_ns > now ? end_ns - now : 0;
		struct wait slice = *wait;

		is_last = left_ns <= slice_ns;
		slice_ns = is_last ? left_ns : slice_ns;
		if (slice_ns != UINT64_MAX && !(is_first && is_last)) {
			/* Rounded up: early would be a spin. */
			slice.is_exact = false;
			slice.timeout_ms = slice_ns / QCLIMB_NS_PER_MS < INT32_MAX
						   ? (int)((slice_ns + QCLIMB_NS_PER_MS - 1) / QCLIMB_NS_PER_MS)
						   : INT32_MAX;
		} else if (slice_ns == UINT64_MAX) {
			slice.is_exact = false;
			slice.timeout_ms = -1;
		}
		found = wait_whole(&slice);
		if (is_asleep)
			withheld_wake(wait->loop);
		if (found || (is_last && slice_ns != UINT64_MAX))
			return found;
	}
}

QCLIMB_EXPORT int epoll_wait(int loop, struct epoll_event *events, int room, int timeout_ms)
{
	const struct wait wait = { .loop = loop, .events = events, .room = room, .timeout_ms = timeout_ms };

	return optax_is_on() ? wait_in_slices(&wait) : real()->epoll_wait(loop, events, room, timeout_ms);
}

QCLIMB_EXPORT int epoll_pwait(int loop, struct epoll_event *events, int room, int timeout_ms, const sigset_t *mask)
{
	const struct wait wait = {
		.loop = loop, .events = events, .room = room, .timeout_ms = timeout_ms, .mask = mask
	};

	return optax_is_on() ? wait_in_slices(&wait) : real()->epoll_pwait(loop, events, room, timeout_ms, mask);
}

/* Younger than some libc's header. */
QCLIMB_EXPORT int epoll_pwait2(int loop, struct epoll_event *events, int room, const struct timespec *timeout,
			       const sigset_t *mask);
QCLIMB_EXPORT int epoll_pwait2(int loop, struct epoll_event *events, int room, const struct timespec *timeout,
			       const sigset_t *mask)
{
	const struct wait wait = {
		.loop = loop, .events = events, .room = room, .timeout = timeout, .is_exact = true, .mask = mask
	};

	if (!real()->epoll_pwait2) {
		errno = ENOSYS;
		return -1;
	}
	return optax_is_on() ? wait_in_slices(&wait) : real()->epoll_pwait2(loop, events, room, timeout, mask);
}
