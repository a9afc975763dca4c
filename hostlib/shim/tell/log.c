#include "tell/log.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/own_fd.h"

#define LINE_BYTES 512

int qclimb_log_fd = -1;
static struct stat log_file; /* an application that closes every descriptor may open its own file under our number */

void log_start(const char *where)
{
	/* A FIFO without a reader is no log, and nobody waits for one. */
	const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd;

	if (!where || !*where)
		return;
	if (!strcmp(where, "stderr"))
		fd = STDERR_FILENO;
	else
		fd = (int)qclimb_syscall(SYS_openat, AT_FDCWD, where, flags, 0600);
	qclimb_log_fd = fd < 0 || fd == STDERR_FILENO ? fd : own_fd(fd);
	if (qclimb_log_fd >= 0)
		sys_fstat(qclimb_log_fd, &log_file);
}

/*
 * stderr that nobody gave us for a log, or a FIFO whose reader may be gone: a program that never wrote there must not end
 * (SIGPIPE) or wait for a line.
 */
static bool takes_a_line(int fd)
{
	struct pollfd poll = { fd, POLLOUT, 0 };
	const struct timespec now = { 0, 0 };

	return qclimb_syscall(SYS_ppoll, &poll, 1, &now, NULL, 0) == 1 && poll.revents == POLLOUT;
}

/* Beyond the process's own limit of a file's size the kernel sends SIGXFSZ. */
static bool is_within_limit(off_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) &&
	       (limit.rlim_cur == RLIM_INFINITY || (rlim_t)size + LINE_BYTES <= limit.rlim_cur);
}

static bool log_takes_a_line(void)
{
	struct stat now;

	return qclimb_log_fd == STDERR_FILENO ||
	       (!sys_fstat(qclimb_log_fd, &now) && now.st_dev == log_file.st_dev && now.st_ino == log_file.st_ino &&
		(S_ISREG(now.st_mode) ? is_within_limit(now.st_size) : takes_a_line(qclimb_log_fd)));
}

void log_line(const char *format, ...)
{
	char line[LINE_BYTES];
	const int saved = errno;
	va_list arguments;
	int len, more;

	len = snprintf(line, sizeof(line), "[qclimb] %llu pid=%d ", (unsigned long long)now_ns(), (int)sys_getpid());
	va_start(arguments, format);
	more = vsnprintf(line + len, sizeof(line) - (size_t)len - 1, format, arguments);
	va_end(arguments);
	len = more < 0 || len + more >= (int)sizeof(line) - 1 ? (int)sizeof(line) - 2 : len + more;
	line[len++] = '\n';
	if (qclimb_log_fd < 0 ? takes_a_line(STDERR_FILENO) : log_takes_a_line())
		(void)!qclimb_syscall(SYS_write, qclimb_log_fd < 0 ? STDERR_FILENO : qclimb_log_fd, line, len);
	errno = saved;
}
