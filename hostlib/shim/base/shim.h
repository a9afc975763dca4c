/*
 * What every file of the library shares: how a call is exported, the clock, system calls that nobody intercepts.
 *
 * What an intercepted call may do to the application: nothing it can see. It returns what libc returned, with libc's
 * errno; qclimb's own failures end inside. No function below takes a lock that a signal handler could find taken, or
 * allocates.
 */
#ifndef QCLIMB_SHIM_H
#define QCLIMB_SHIM_H

#include "base/libc.h"

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

#define QCLIMB_NS_PER_US UINT64_C(1000)
#define QCLIMB_NS_PER_MS UINT64_C(1000000)
#define QCLIMB_NS_PER_S UINT64_C(1000000000)

/*
 * Of a field that others read or change meanwhile; plain C would order it with all others, which costs as much as a
 * lock.
 */
#define relaxed_get(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define relaxed_set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

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
	return (uint64_t)now.tv_sec * QCLIMB_NS_PER_S + (uint64_t)now.tv_nsec;
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
	return (int)qclimb_syscall(SYS_setsockopt, fd, level, option, &value, sizeof(value));
}

static inline int sys_getsockopt(int fd, int level, int option, void *value, socklen_t len)
{
	return (int)qclimb_syscall(SYS_getsockopt, fd, level, option, value, &len);
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
	return (int)qclimb_syscall(SYS_fstat, fd, found); /* struct stat is the kernel's there */
#else
	return fstat(fd, found);
#endif
}

/* Of this process, asked anew: a vfork child shares our memory but not our pid. */
static inline pid_t sys_getpid(void)
{
	return (pid_t)qclimb_syscall(SYS_getpid);
}

#endif
