/*
 * splice: into a socket it is a write, out of one a read. (tee and vmsplice reach pipes only: what they carry comes by
 * here or not at all.)
 */
#include "calls/real.h"
#include "boundary/flow.h"
#include "optax/optax.h"

#include <fcntl.h>
#include <sys/ioctl.h>

static ssize_t piece_of_pipe(const struct write_call *call, size_t offset, size_t len)
{
	(void)offset; /* the pipe moves on by itself */
	return real()->splice(call->in_fd, NULL, call->fd, NULL, len, call->splice_flags);
}

/*
 * A split must not ask for more than the pipe holds now: libc's call returns once it has emptied the pipe, and a second
 * piece would wait for more. An empty one is left to the kernel, whole.
 */
static ssize_t splice_to(struct connection *connection, struct write_call *call, size_t count)
{
	const int saved = errno;
	int held = 0;

	if (qclimb_syscall(SYS_ioctl, call->in_fd, FIONREAD, &held) || held < 0)
		held = 0;
	errno = saved;
	call->len = held && (size_t)held < count ? (size_t)held : count;
	call->is_whole = !held;
	return flow_write(connection, call);
}

QCLIMB_EXPORT ssize_t splice(int in_fd, off64_t *in_offset, int fd, off64_t *offset, size_t count, unsigned int flags)
{
	struct connection *connection = connection_of(fd);
	struct write_call call = { .piece = piece_of_pipe, .fd = fd, .in_fd = in_fd, .splice_flags = flags };
	ssize_t got;

	if (connection && count && count <= SSIZE_MAX && !in_offset && !offset)
		return splice_to(connection, &call, count);
	got = real()->splice(in_fd, in_offset, fd, offset, count, flags);
	if (got > 0 && (connection = connection_of(in_fd)))
		flow_read(connection, in_fd, NULL, (size_t)got, count);
	if (got >= 0 && optax_is_on() && (connection = connection_of(in_fd)))
		optax_read(connection, in_fd, got, count, 0);
	return got;
}
