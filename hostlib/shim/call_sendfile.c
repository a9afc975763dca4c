/* sendfile and sendfile64: one address in a 64-bit libc, two names. The count is cut at a boundary. */
#include "flow.h"

#include <sys/sendfile.h>

static ssize_t piece_of_file(const struct write_call *call, size_t offset, size_t len)
{
	(void)offset; /* libc moves call->offset, or the file's own */
	return real()->sendfile64(call->fd, call->in_fd, call->offset, len);
}

static ssize_t send_file(int fd, int in_fd, off64_t *offset, size_t count)
{
	struct connection *connection = connection_of(fd);
	const struct write_call call = {
		.piece = piece_of_file, .fd = fd, .flags = 0, .len = count, .in_fd = in_fd, .offset = offset
	};

	if (!connection || !count)
		return real()->sendfile64(fd, in_fd, offset, count);
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
