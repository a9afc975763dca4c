/*
 * ioctl, where OPTAX is on: an application that asks how many bytes wait may not read before there are enough of them,
 * which a small window of ours never lets in. Its socket is left alone. All else is handed on as it came.
 */
#include "calls/real.h"
#include "optax/optax.h"

#include <sys/ioctl.h>

/*
 * libc's is declared with `...`, and musl's request is an int. Numbers and pointers travel alike either way, and so
 * does an argument that the caller leaves out.
 */
QCLIMB_EXPORT int ioctl_of_the_application(int fd, unsigned long request, void *argument) __asm__("ioctl");
QCLIMB_EXPORT int ioctl_of_the_application(int fd, unsigned long request, void *argument)
{
	const int result = real()->ioctl(fd, request, argument);
	struct connection *connection;

	if (optax_is_on() && (unsigned int)request == FIONREAD && !result && (connection = connection_of(fd)))
		optax_read(connection, fd, 0, (size_t) * (const int *)argument, MSG_PEEK);
	return result;
}
