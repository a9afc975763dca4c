/*
 * What every file of the library shares: how a call is exported, libc's own functions, system calls that nobody
 * intercepts.
 *
 * What an intercepted call may do to the application: nothing it can see. It returns what libc returned, with libc's
 * errno; qclimb's own failures end inside. No function below takes a lock that a signal handler could find taken, or
 * allocates.
 */
#ifndef QCLIMB_SHIM_H
#define QCLIMB_SHIM_H

#include "libc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define QCLIMB_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define syscall(...) qclimb_syscall(__VA_ARGS__) /* below, our own */

#define QCLIMB_NS_PER_US UINT64_C(1000)
#define QCLIMB_NS_PER_MS UINT64_C(1000000)

/*
 * Of a field that others read or change meanwhile; plain C would order it with all others, which costs as much as a
 * lock.
 */
#define relaxed_get(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define relaxed_set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

struct pollfd;
struct epoll_event;

/*
 * libc's functions under our names: result, name, arguments. Last those that not every libc has: dlsym() allocates
 * where it finds nothing, and an allocator that starts just then may call read() and the like (start.c).
 */
#define QCLIMB_REAL(X)                                                                                                 \
	X(int, prctl, (int, ...))                                                                                      \
	X(int, socket, (int, int, int))                                                                                \
	X(int, connect, (int, const struct sockaddr *, socklen_t))                                                     \
	X(int, listen, (int, int))                                                                                     \
	X(int, accept, (int, struct sockaddr *, socklen_t *))                                                          \
	X(int, accept4, (int, struct sockaddr *, socklen_t *, int))                                                    \
	X(int, setsockopt, (int, int, int, const void *, socklen_t))                                                   \
	X(int, getsockopt, (int, int, int, void *, socklen_t *))                                                       \
	X(ssize_t, send, (int, const void *, size_t, int))                                                             \
	X(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t))                       \
	X(ssize_t, sendmsg, (int, const struct msghdr *, int))                                                         \
	X(int, sendmmsg, (int, struct mmsghdr *, unsigned int, many_flags))                                            \
	X(ssize_t, write, (int, const void *, size_t))                                                                 \
	X(ssize_t, writev, (int, const struct iovec *, int))                                                           \
	X(ssize_t, sendfile, (int, int, off_t *, size_t))                                                              \
	X(ssize_t, splice, (int, off64_t *, int, off64_t *, size_t, unsigned int))                                     \
	X(ssize_t, recv, (int, void *, size_t, int))                                                                   \
	X(ssize_t, recvfrom, (int, void *, size_t, int, struct sockaddr *, socklen_t *))                               \
	X(ssize_t, recvmsg, (int, struct msghdr *, int))                                                               \
	X(int, recvmmsg, (int, struct mmsghdr *, unsigned int, many_flags, struct timespec *))                         \
	X(ssize_t, read, (int, void *, size_t))                                                                        \
	X(ssize_t, readv, (int, const struct iovec *, int))                                                            \
	X(int, close, (int))                                                                                           \
	X(int, dup, (int))                                                                                             \
	X(int, dup2, (int, int))                                                                                       \
	X(int, dup3, (int, int, int))                                                                                  \
	X(int, fcntl, (int, int, ...))                                                                                 \
	X(int, ioctl, (int, unsigned long, ...))                                                                       \
	X(int, shutdown, (int, int))                                                                                   \
	X(int, poll, (struct pollfd *, unsigned long, int))                                                            \
	X(int, ppoll, (struct pollfd *, unsigned long, const struct timespec *, const sigset_t *))                     \
	X(int, select, (int, fd_set *, fd_set *, fd_set *, struct timeval *))                                          \
	X(int, pselect, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))                \
	X(int, epoll_ctl, (int, int, int, struct epoll_event *))                                                       \
	X(int, epoll_wait, (int, struct epoll_event *, int, int))                                                      \
	X(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))                                   \
	X(ssize_t, sendfile64, (int, int, off64_t *, size_t))                                                          \
	X(ssize_t, __recv_chk, (int, void *, size_t, size_t, int))                                                     \
	X(ssize_t, __recvfrom_chk, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))                 \
	X(ssize_t, __read_chk, (int, void *, size_t, size_t))                                                          \
	X(int, close_range, (unsigned int, unsigned int, int))                                                         \
	X(void, closefrom, (int))                                                                                      \
	X(int, fcntl64, (int, int, ...))                                                                               \
	X(int, __poll_chk, (struct pollfd *, unsigned long, int, size_t))                                              \
	X(int, __ppoll_chk, (struct pollfd *, unsigned long, const struct timespec *, const sigset_t *, size_t))       \
	X(int, epoll_pwait2, (int, struct epoll_event *, int, const struct timespec *, const sigset_t *))

#define QCLIMB_REAL_MEMBER(result, name, arguments) result(*name) arguments;
struct real {
	QCLIMB_REAL(QCLIMB_REAL_MEMBER)
};
#undef QCLIMB_REAL_MEMBER

extern QCLIMB_OURS struct real qclimb_real;
extern QCLIMB_OURS atomic_bool qclimb_is_started;

/*
 * Resolves libc's functions and reads the environment, once; another library's constructor may call us before ours has
 * run.
 */
void qclimb_start(void);

/* Leaves every socket as if the library had never been here, and does nothing any more in this process. */
void qclimb_withdraw(void);

static inline const struct real *real(void)
{
	if (unlikely(!atomic_load_explicit(&qclimb_is_started, memory_order_acquire)))
		qclimb_start();
	return &qclimb_real;
}

/*
 * What no user memory is: NULL and numbers beside it, -1, the kernel's half. Such a list of parts is left for the
 * kernel to refuse (EFAULT). To find out any other bad one would take a system call on each good one.
 */
static inline bool is_no_memory(const void *address)
{
	return (uintptr_t)address < 4096 || (intptr_t)address < 0;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/*
 * A time of now_ns() in 1,024 ns, where 32 bits must do: differences up to an hour. Never 0, which stands for no time.
 */
static inline uint32_t tick_of(uint64_t ns)
{
	return (uint32_t)(ns >> 10) | 1u;
}

/*
 * System calls that no other interposed library sees, and that are no cancellation points. They set errno: callers keep
 * it.
 */
static inline int sys_setsockopt(int fd, int level, int option, int value)
{
	return (int)syscall(SYS_setsockopt, fd, level, option, &value, sizeof(value));
}

static inline int sys_getsockopt(int fd, int level, int option, void *value, socklen_t len)
{
	return (int)syscall(SYS_getsockopt, fd, level, option, value, &len);
}

/* The value of an option that is a number; 0 if it can't be had. */
static inline int sys_option(int fd, int level, int option)
{
	int number = 0;

	(void)sys_getsockopt(fd, level, option, &number, sizeof(number));
	return number;
}

/* Of descriptors that we opened past libc: a sanitizer's interposed fstat() would take them for the application's. */
static inline int sys_fstat(int fd, struct stat *found)
{
#ifdef __LP64__
	return (int)syscall(SYS_fstat, fd, found); /* struct stat is the kernel's there */
#else
	return fstat(fd, found);
#endif
}

/* Of this process, asked anew: a vfork child shares our memory but not our pid. */
static inline pid_t sys_getpid(void)
{
	return (pid_t)syscall(SYS_getpid);
}

/* Who runs: the kernel's number of the thread, asked once a thread, and anew by the child of a fork. */
extern QCLIMB_OURS __thread uint32_t qclimb_thread __attribute__((tls_model("initial-exec")));

static inline uint32_t this_thread(void)
{
	if (unlikely(!qclimb_thread))
		qclimb_thread = (uint32_t)syscall(SYS_gettid);
	return qclimb_thread;
}

#endif
