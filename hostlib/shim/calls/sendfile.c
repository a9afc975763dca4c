/* sendfile and sendfile64: one address in a 64-bit libc, two names. The count is cut at a boundary. */
#include "calls/real.h"
#include "boundary/flow.h"

#include <sys/stat.h>

/* musl has no prototype of it. */
ssize_t sendfile64(int fd, int in_fd, off64_t *offset, size_t count);

static ssize_t piece_of_file(const struct write_call *call, size_t offset, size_t len)
{
	(void)offset; /* libc moves call->offset, or the file's own */
	return real()->sendfile64(call->fd, call->in_fd, call->offset, len);
}

/*
 * How much the file can give: applications ask for 2^30 bytes and more to say "to its end" (CPython does), which proves
 * nothing about the flow's size. What is no regular file is left to the kernel. Asked anew each time: files grow and
 * shrink.
 */
static size_t rest_of_file(const struct write_call *call)
{
	const int saved = errno;
	size_t rest = SIZE_MAX;
	struct stat file;
	off64_t at;

	if (!fstat(call->in_fd, &file) && S_ISREG(file.st_mode)) {
		at = call->offset ? *call->offset : lseek(call->in_fd, 0, SEEK_CUR);
		if (at >= 0)
			rest = at < file.st_size ? (size_t)(file.st_size - at) : 0;
	}
	errno = saved;
	return rest;
}

/* The kernel checks the count as a whole against the largest offset there is. */
static bool is_refused(int in_fd, const off64_t *offset, size_t count)
{
	const int saved = errno;
	off64_t at = offset ? *offset : 0;

	if (!offset && count > INT_MAX)
		at = lseek(in_fd, 0, SEEK_CUR);
	errno = saved;
	return at >= 0 && count > SSIZE_MAX - (size_t)at;
}

static ssize_t send_file(int fd, int in_fd, off64_t *offset, size_t count)
{
	struct connection *connection = connection_of(fd);
	struct write_call call;

	if (!connection || !count || (offset && is_no_memory(offset)) || is_refused(in_fd, offset, count))
		return real()->sendfile64(fd, in_fd, offset, count);
	call = (struct write_call){ .piece = piece_of_file,
				    .fd = fd,
				    .len = limit_to_call(count),
				    .in_fd = in_fd,
				    .offset = offset,
				    .available = rest_of_file };
	return flow_write(connection, &call);
}

QCLIMB_EXPORT ssize_t sendfile64(int fd, int in_fd, off64_t *offset, size_t count)
{
	return send_file(fd, in_fd, offset, count);
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "a 32-bit off_t needs a sendfile of its own");

QCLIMB_EXPORT ssize_t sendfile(int fd, int in_fd, off_t *offset, size_t count)
{
	return send_file(fd, in_fd, (off64_t *)offset, count);
}
