/*
 * poll, ppoll, select, pselect and what _FORTIFY_SOURCE turns them into: where reads of a socket are withheld (OPTAX),
 * it is not readable for the application either. Without OPTAX, or where this process has no task in line, libc's call.
 */
#include "calls/real.h"
#include "optax/optax.h"

#include <poll.h>
#include <string.h>
#include <sys/select.h>

#include "optax/line.h"
#include "optax/withheld.h"

#define POLLS 512 /* descriptors of one call; with more, nothing is withheld from it */
#define FEW 16 /* descriptors whose copy is 128 bytes of stack, not 4 KB: a thread's may be small */
#define READS (POLLIN | POLLRDNORM)
#define GONE (POLLERR | POLLHUP | POLLNVAL)

/* Until then, or for a slice where something is withheld; NULL: for ever. */
static struct timespec *slice_of(struct timespec *time, uint64_t end_ns, uint64_t now, bool is_withheld)
{
	const uint64_t left_ns = withheld_left_of(end_ns, now);
	const uint64_t ns = is_withheld && left_ns > WITHHELD_SLICE_NS ? WITHHELD_SLICE_NS : left_ns;

	if (ns == WITHHELD_FOREVER)
		return NULL;
	*time = (struct timespec){ (time_t)(ns / QCLIMB_NS_PER_S), (long)(ns % QCLIMB_NS_PER_S) };
	return time;
}

/* Takes reads of withheld sockets out of `events`; whether there were any. */
static bool take_reads(int fd, short *events, uint64_t now)
{
	if (!(*events & READS) || !withheld_from_poll(fd, now))
		return false;
	*events &= (short)~READS;
	return true;
}

/* `asked` is room for as many descriptors. */
static int poll_by_copy(struct pollfd *asked, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
			const sigset_t *mask)
{
	struct timespec time;
	uint64_t now = now_ns();
	const uint64_t end_ns = withheld_end_of(timeout, now);
	const int saved = errno;

	for (;;) {
		bool is_withheld = false;
		int found, ready = 0;

		for (nfds_t i = 0; i < count; i++) {
			asked[i] = fds[i];
			is_withheld |= take_reads(fds[i].fd, &asked[i].events, now);
		}
		found = real()->ppoll(asked, count, slice_of(&time, end_ns, now, is_withheld), mask);
		if (found < 0)
			return found;
		now = now_ns();
		for (nfds_t i = 0; i < count; i++) { /* of those found ready, the withheld ones are not */
			if (!(asked[i].revents & GONE))
				take_reads(fds[i].fd, &asked[i].revents, now);
			fds[i].revents = asked[i].revents;
			ready += asked[i].revents != 0;
		}
		if (ready || now >= end_ns) {
			errno = saved;
			return ready;
		}
	}
}

static __attribute__((noinline)) int poll_many(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
					       const sigset_t *mask)
{
	struct pollfd asked[POLLS];

	return poll_by_copy(asked, fds, count, timeout, mask);
}

static int poll_others(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct pollfd asked[FEW];

	if (!fds || count > POLLS)
		return real()->ppoll(fds, count, timeout, mask);
	return count > FEW ? poll_many(fds, count, timeout, mask) : poll_by_copy(asked, fds, count, timeout, mask);
}

static int poll_for(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	const struct timespec time = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };

	return poll_others(fds, count, timeout_ms < 0 ? NULL : &time, NULL);
}

static bool has_line(void)
{
	return optax_is_on() && line_has_place();
}

QCLIMB_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	return has_line() ? poll_for(fds, count, timeout_ms) : real()->poll(fds, count, timeout_ms);
}

QCLIMB_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	return has_line() ? poll_others(fds, count, timeout, mask) : real()->ppoll(fds, count, timeout, mask);
}

QCLIMB_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room);
QCLIMB_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room)
{
	if (!has_line() || count > room / sizeof(*fds))
		return real()->__poll_chk(fds, count, timeout_ms, room);
	return poll_for(fds, count, timeout_ms);
}

QCLIMB_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
			      size_t room);
QCLIMB_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
			      size_t room)
{
	if (!has_line() || count > room / sizeof(*fds))
		return real()->__ppoll_chk(fds, count, timeout, mask, room);
	return poll_others(fds, count, timeout, mask);
}

/* --- select: as many bytes of a set as its count of descriptors says: an application's may be shorter than fd_set */

static void copy_set(fd_set *to, const fd_set *from, int count)
{
	const size_t bits = 8 * sizeof(long);

	if (to && from)
		memcpy(to, from, ((size_t)count + bits - 1) / bits * sizeof(long));
}

/* Takes withheld sockets out of a set of those to read; how many. */
static int take_withheld(fd_set *reads, int count)
{
	const uint64_t now = now_ns();
	int taken = 0;

	for (int fd = 0; fd < count; fd++) {
		if (FD_ISSET(fd, reads) && withheld_from_poll(fd, now)) {
			FD_CLR(fd, reads);
			taken++;
		}
	}
	return taken;
}

static int select_others(int count, fd_set *reads, fd_set *writes, fd_set *others, uint64_t end_ns,
			 const sigset_t *mask)
{
	fd_set asked[3];
	struct timespec time;
	const int saved = errno;

	for (;;) {
		bool is_withheld;
		int found;

		copy_set(&asked[0], reads, count);
		copy_set(&asked[1], writes, count);
		copy_set(&asked[2], others, count);
		is_withheld = take_withheld(&asked[0], count) > 0;
		found = real()->pselect(count, &asked[0], writes ? &asked[1] : NULL, others ? &asked[2] : NULL,
					slice_of(&time, end_ns, now_ns(), is_withheld), mask);
		if (found < 0)
			return found;
		found -= take_withheld(&asked[0], count);
		if (found || now_ns() >= end_ns) {
			copy_set(reads, &asked[0], count);
			copy_set(writes, &asked[1], count);
			copy_set(others, &asked[2], count);
			errno = saved;
			return found;
		}
	}
}

static bool can_be_withheld(int count, const fd_set *reads)
{
	return has_line() && reads && count > 0 && count <= FD_SETSIZE;
}

QCLIMB_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *timeout)
{
	struct timespec time;
	uint64_t end_ns, left_ns;
	int found;

	if (!can_be_withheld(count, reads) || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return real()->select(count, reads, writes, others, timeout);
	if (timeout)
		time = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	end_ns = withheld_end_of(timeout ? &time : NULL, now_ns());
	found = select_others(count, reads, writes, others, end_ns, NULL);
	if (timeout) { /* as Linux does */
		left_ns = withheld_left_of(end_ns, now_ns());
		timeout->tv_sec = (time_t)(left_ns / QCLIMB_NS_PER_S);
		timeout->tv_usec = (suseconds_t)(left_ns % QCLIMB_NS_PER_S / 1000);
	}
	return found;
}

QCLIMB_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *timeout,
			  const sigset_t *mask)
{
	if (!can_be_withheld(count, reads) || (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0)))
		return real()->pselect(count, reads, writes, others, timeout, mask);
	return select_others(count, reads, writes, others, withheld_end_of(timeout, now_ns()), mask);
}
