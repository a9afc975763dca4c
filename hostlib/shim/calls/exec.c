/*
 * execve and what leads to it. Descriptors live on in the next program, which knows of nothing that was lent or marked:
 * what a non-blocking writer left so is given back before, and the DSCP of what is handed on. A vfork child's memory is its parent's, whose sockets go on:
 * nothing is touched there.
 */
#include "calls/real.h"
#include "base/process.h"
#include "boundary/gate.h"
#include "socket/loans.h"
#include "socket/mark.h"

#include <fcntl.h>
#include <stdarg.h>

/* musl has no such function. */
int execveat(int directory, const char *path, char *const arguments[], char *const environment[], int flags);

/*
 * Whether the next program works with this socket, not its parent: it is its standard input or output (inetd), or no
 * other process has it by a fork.
 */
static bool is_handed_on(const struct connection *connection, int fd)
{
	return (fd <= STDERR_FILENO || !connection->is_foreign) &&
	       !(qclimb_syscall(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC);
}

static void give(struct connection *connection, int fd)
{
	if (is_handed_on(connection, fd))
		mark_nothing(connection, fd);
	if (take_gate(connection, 0)) {
		loans_give(connection, fd);
		give_gate(connection);
	} else {
		loans_give_for_exec(connection, fd); /* another thread is in a write, and ends with this program */
	}
}

/* An exec that returns has failed. */
static int failed(int result)
{
	if (is_own_process())
		loans_exec_failed();
	return result;
}

static const struct real *real_exec(void)
{
	const struct real *libc = real();
	const int saved = errno;

	if (is_own_process())
		connections_visit(give);
	errno = saved;
	return libc;
}

QCLIMB_EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
	return failed(real_exec()->execve(path, arguments, environment));
}

QCLIMB_EXPORT int execv(const char *path, char *const arguments[])
{
	return failed(real_exec()->execv(path, arguments));
}

QCLIMB_EXPORT int execvp(const char *file, char *const arguments[])
{
	return failed(real_exec()->execvp(file, arguments));
}

QCLIMB_EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	return failed(real_exec()->execvpe(file, arguments, environment));
}

QCLIMB_EXPORT int fexecve(int fd, char *const arguments[], char *const environment[])
{
	return failed(real_exec()->fexecve(fd, arguments, environment));
}

QCLIMB_EXPORT int execveat(int directory, const char *path, char *const arguments[], char *const environment[],
			   int flags)
{
	const struct real *libc = real_exec();

	if (!libc->execveat)
		return failed((int)qclimb_syscall(SYS_execveat, directory, path, arguments, environment, flags));
	return failed(libc->execveat(directory, path, arguments, environment, flags));
}

/* The list as an array on the stack, as libc itself makes it: nothing may be allocated after vfork. */
#define EXEC_LIST(name, call)                                                                                          \
	QCLIMB_EXPORT int name(const char *path, const char *first, ...)                                               \
	{                                                                                                              \
		size_t count = 0;                                                                                      \
		char **arguments;                                                                                      \
		va_list list;                                                                                          \
                                                                                                                       \
		va_start(list, first);                                                                                 \
		for (const char *one = first; one; one = va_arg(list, const char *))                                   \
			count++;                                                                                       \
		va_end(list);                                                                                          \
		arguments = __builtin_alloca((count + 1) * sizeof(*arguments));                                        \
		arguments[0] = (char *)(uintptr_t)first;                                                               \
		va_start(list, first);                                                                                 \
		for (size_t i = 1; i <= count; i++)                                                                    \
			arguments[i] = va_arg(list, char *);                                                           \
		call;                                                                                                  \
	}

EXEC_LIST(execl, va_end(list); return failed(real_exec()->execv(path, arguments)))
EXEC_LIST(execlp, va_end(list); return failed(real_exec()->execvp(path, arguments)))
EXEC_LIST(execle, char *const *environment = va_arg(list, char *const *); va_end(list);
	  return failed(real_exec()->execve(path, arguments, environment)))
