/*
 * What exact boundaries cost whoever keeps them: a server that cuts each answer's sendfile at SPLIT_BYTES and sets the
 * DSCPs itself, with no call more than that takes. To be preloaded under nginx by bench/shim_programs.py and
 * shim_link.py, as the reference beside the library. For a server of one thread whose answers each follow a request, on
 * IPv4 and without pipelines; knows nothing of qclimb.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef SPLIT_BYTES
#define SPLIT_BYTES (46 * 1460) /* beside.py: the first threshold */
#endif
#define FDS 1024

static struct answer {
	size_t sent;
	bool is_demoted, waits;
} answers[FDS];

static ssize_t (*real_sendfile)(int, int, off64_t *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_recv)(int, void *, size_t, int);

__attribute__((constructor)) static void start(void)
{
	real_sendfile = (ssize_t(*)(int, int, off64_t *, size_t))dlsym(RTLD_NEXT, "sendfile64");
	real_writev = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
	real_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
}

static void set(int fd, int level, int option, int value)
{
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* DSCP and SO_PRIORITY as the library sets them for priorities 0 and 1 of eight. */
static void mark(int fd, bool is_demoted)
{
	set(fd, IPPROTO_IP, IP_TOS, (is_demoted ? 43 : 47) << 2);
	set(fd, SOL_SOCKET, SO_PRIORITY, is_demoted ? 5 : 6);
}

static bool is_unsent(int fd)
{
	int bytes = 0;

	return !ioctl(fd, SIOCOUTQNSD, &bytes) && bytes > 0;
}

/* Whether all before the boundary is transmitted; if not, an event will say so: DSCPs are read when a packet leaves. */
static bool is_at_boundary(int fd)
{
	struct pollfd writable = { fd, POLLOUT, 0 };

	if (is_unsent(fd)) {
		if (answers[fd].waits)
			return false;
		set(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* nginx has set it, so this only pushes */
		if (is_unsent(fd)) {
			set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1);
			answers[fd].waits = true;
			return poll(&writable, 1, 0) > 0;
		}
	}
	if (answers[fd].waits)
		set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0);
	answers[fd].waits = false;
	return true;
}

static ssize_t send_part(int fd, int from, off64_t *offset, size_t count)
{
	const ssize_t sent = real_sendfile(fd, from, offset, count);

	if (sent > 0)
		answers[fd].sent += (size_t)sent;
	return sent;
}

ssize_t sendfile64(int fd, int from, off64_t *offset, size_t count)
{
	struct answer *answer = &answers[fd];
	ssize_t first = 0, second;

	if (answer->is_demoted || answer->sent + count <= SPLIT_BYTES)
		return send_part(fd, from, offset, count);
	if (answer->sent < SPLIT_BYTES) {
		const size_t part = SPLIT_BYTES - answer->sent;

		first = send_part(fd, from, offset, part);
		if (first < (ssize_t)part)
			return first;
	}
	if (!is_at_boundary(fd)) {
		errno = EAGAIN;
		return first ? first : -1;
	}
	mark(fd, true);
	answer->is_demoted = true;
	second = send_part(fd, from, offset, count - (size_t)first);
	return second >= 0 ? first + second : first ? first : -1;
}

ssize_t sendfile(int fd, int from, off_t *offset, size_t count)
{
	return sendfile64(fd, from, (off64_t *)offset, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	const ssize_t sent = real_writev(fd, parts, count);

	if (sent > 0)
		answers[fd].sent += (size_t)sent;
	return sent;
}

/* A request: its answer is a flow of its own. */
ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
	const ssize_t got = real_recv(fd, bytes, len, flags);

	if (got > 0) {
		if (answers[fd].is_demoted)
			mark(fd, false);
		answers[fd] = (struct answer){ 0 };
	}
	return got;
}
