/*
 * Sockets whose reads are withheld: poll, select and epoll must agree with read (optax.c). For poll and
 * select the socket is left out of what is asked; an event loop's registration is changed (EPOLLIN taken out) until
 * reads are due again, and changing it back makes the kernel tell anew what can be read, to edge-triggered users too.
 * Waiting goes on in slices meanwhile.
 *
 * Invariant: no event is lost. A registration is changed only while each thread that waits on its loop does so through
 * us and in slices, and only where the loop was waited on through us before; else reads go through.
 */
#ifndef QCLIMB_WITHHELD_H
#define QCLIMB_WITHHELD_H

#include "optax/received.h"

/* Whether reads of this connection wait now, and until when unless the line moves before. */
bool withheld_now(const struct connection *connection, uint64_t now, uint64_t *due_ns);

/* Whether a caller that gets EAGAIN is told, through a call of ours, when it may read. */
bool withheld_event_is_sure(const struct connection *connection);

/* A flow is in line, or no longer; is_open: its descriptor still is this connection. */
void withheld_begin(struct connection *connection);
void withheld_end(struct connection *connection, bool is_open);

#define WITHHELD_FOREVER UINT64_MAX
#define WITHHELD_SLICE_NS QCLIMB_NS_PER_MS

/* When a wait that begins now ends; NULL, and less than nothing: never. */
static inline uint64_t withheld_end_of(const struct timespec *timeout, uint64_t now)
{
	if (!timeout || timeout->tv_sec < 0 ||
	    (uint64_t)timeout->tv_sec > (WITHHELD_FOREVER - now) / QCLIMB_NS_PER_S - 1)
		return WITHHELD_FOREVER;
	return now + (uint64_t)timeout->tv_sec * QCLIMB_NS_PER_S + (uint64_t)timeout->tv_nsec;
}

static inline uint64_t withheld_left_of(uint64_t end_ns, uint64_t now)
{
	return end_ns == WITHHELD_FOREVER ? WITHHELD_FOREVER : end_ns > now ? end_ns - now : 0;
}

/* The application waits for reads of `fd` by poll or select: whether they are withheld. */
bool withheld_from_poll(int fd, uint64_t now);

/*
 * Before waiting on an epoll descriptor: brings its registrations up to date; how long one may wait, and whether to
 * call withheld_wake() then.
 */
uint64_t withheld_sleep(int loop, uint64_t now, bool *is_asleep);
void withheld_wake(int loop);

/* epoll_ctl by `ctl`, libc's, with its result and errno. */
typedef int epoll_ctl_call(int loop, int operation, int fd, struct epoll_event *event);
int withheld_ctl(struct connection *connection, epoll_ctl_call *ctl, int loop, int operation, int fd,
		 struct epoll_event *event);

/* An epoll descriptor's number is closed, or another's. */
void withheld_loop_closed(int loop);

#endif
