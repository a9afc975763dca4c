#include "base/own_fd.h"

#include <fcntl.h>
#include <sys/resource.h>

/*
 * Above what most applications use, yet below 64: a process's first table holds as many, and to grow it the kernel
 * waits for an RCU grace period where threads share it: 7 to 24 ms inside some application's write.
 */
#define FD_WANTED 40

int own_fd(int fd)
{
	struct rlimit limit = { FD_WANTED + 24, 0 };
	int moved, wanted = FD_WANTED;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < FD_WANTED + 24)
		wanted = limit.rlim_cur > 48 ? (int)limit.rlim_cur - 24 : 0;
	moved = (int)qclimb_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, wanted);
	if (moved < 0)
		return fd;
	(void)qclimb_syscall(SYS_close, fd);
	return moved;
}
