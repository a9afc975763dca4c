/* close, close_range, closefrom, dup, dup2, dup3, fcntl, shutdown: which descriptors mean which connection. */
#include "calls/real.h"
#include "boundary/flow.h"
#include "optax/optax.h"
#include "base/process.h"
#include "optax/withheld.h"

#include <fcntl.h>
#include <stdarg.h>

/* musl has no prototypes of these. */
int close_range(unsigned int first, unsigned int last, int flags);
void closefrom(int first);
int fcntl64(int fd, int command, ...);

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

QCLIMB_EXPORT int close(int fd)
{
	const int saved = errno;

	/* Before libc's: afterwards another thread may have the number. */
	connection_drop(fd);
	if (optax_is_on())
		withheld_loop_closed(fd);
	errno = saved;
	return real()->close(fd);
}

QCLIMB_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	if (!real()->close_range) {
		errno = ENOSYS;
		return -1;
	}
	if (!((unsigned int)flags & CLOSE_RANGE_CLOEXEC) && is_own_process())
		connection_drop_range(first, last);
	return real()->close_range(first, last, flags);
}

QCLIMB_EXPORT void closefrom(int first)
{
	if (is_own_process())
		connection_drop_range(first < 0 ? 0 : (unsigned int)first, UINT32_MAX);
	if (real()->closefrom)
		real()->closefrom(first);
	else
		(void)qclimb_syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0);
}

/* `made` now means what `fd` does. A vfork child's descriptors are its own, the table is its parent's. */
static int duplicated(int fd, int made, int old_fd)
{
	struct connection *connection = connection_of(fd);

	if (made >= 0 && made != fd && (connection || connection_of(made)) && is_own_process())
		connection_set(made, connection, old_fd);
	return made;
}

QCLIMB_EXPORT int dup(int fd)
{
	return duplicated(fd, real()->dup(fd), FD_LOST);
}

QCLIMB_EXPORT int dup2(int fd, int wanted)
{
	return duplicated(fd, real()->dup2(fd, wanted), FD_GONE);
}

QCLIMB_EXPORT int dup3(int fd, int wanted, int flags)
{
	return duplicated(fd, real()->dup3(fd, wanted, flags), FD_GONE);
}

/* Every argument of fcntl fits a register: handed on as it is. */
#define FCNTL(name)                                                                                                    \
	QCLIMB_EXPORT int name(int fd, int command, ...)                                                               \
	{                                                                                                              \
		va_list arguments;                                                                                     \
		void *argument;                                                                                        \
		int result;                                                                                            \
                                                                                                                       \
		va_start(arguments, command);                                                                          \
		argument = va_arg(arguments, void *);                                                                  \
		va_end(arguments);                                                                                     \
		result = real()->name(fd, command, argument);                                                          \
		return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, result, FD_LOST) : result;    \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

QCLIMB_EXPORT int shutdown(int fd, int how)
{
	struct connection *connection = connection_of(fd);

	if (connection && how != SHUT_RD && is_own_process())
		flow_closed(connection, fd);
	return real()->shutdown(fd, how);
}
