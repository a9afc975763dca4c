/*
 * How long calls are inside a preloaded library: this file twice, before it (OUTER) and behind it, each reading the
 * processor's counter around the call that it hands on; what the one saw and the other did not was spent between them.
 * At exit the outer one appends "TICKS CALLS NS_A_TICK" to $AROUND. For bench/shim_inside.py; knows nothing of qclimb.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <x86intrin.h>

#include "shim_calls.h"

#define TICKS_MOST 100000 /* longer ones were interrupted: not counted, as little without the library as with it */

extern __thread uint64_t around_inner; /* ticks in calls of libc, of this thread */

#ifdef OUTER
static uint64_t total, calls, start_ticks, start_ns; /* threads may lose a call to each other */
static char path[256];
#define AROUND(result, call)                                                                                           \
	const uint64_t inner = around_inner, start = __rdtsc();                                                        \
	const result given = call;                                                                                     \
	const uint64_t ticks = __rdtsc() - start - (around_inner - inner);                                             \
	if (ticks < TICKS_MOST) {                                                                                      \
		total += ticks;                                                                                        \
		calls++;                                                                                               \
	}                                                                                                              \
	return given
#else
__thread uint64_t around_inner __attribute__((tls_model("initial-exec")));
#define AROUND(result, call)                                                                                           \
	const uint64_t start = __rdtsc();                                                                              \
	const result given = call;                                                                                     \
	around_inner += __rdtsc() - start;                                                                             \
	return given
#endif

/* A call of this name, its arguments as declared and as handed on. */
#define FORWARD(result, way, name, arguments, ...)                                                                     \
	static result(*real_##name) arguments;                                                                         \
	result name arguments                                                                                          \
	{                                                                                                              \
		AROUND(result, real_##name(__VA_ARGS__));                                                              \
	}

#define OTHER_CALLS(CALL)                                                                                              \
	CALL(int, closed, close, (int fd), fd)                                                                         \
	CALL(int, set, setsockopt, (int fd, int level, int name, const void *value, socklen_t len), fd, level, name,   \
	     value, len)                                                                                               \
	CALL(int, set, epoll_ctl, (int loop, int what, int fd, struct epoll_event *event), loop, what, fd, event)      \
	CALL(int, awaited, epoll_wait, (int loop, struct epoll_event *events, int most, int wait), loop, events, most, \
	     wait)

DATA_CALLS(FORWARD)
OTHER_CALLS(FORWARD)

#ifdef OUTER
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((destructor)) static void end(void)
{
	const double ns = (double)(now_ns() - start_ns), ticks = (double)(__rdtsc() - start_ticks);
	FILE *file = *path ? fopen(path, "a") : NULL;

	if (file) {
		fprintf(file, "%llu %llu %.9f\n", (unsigned long long)total, (unsigned long long)calls, ns / ticks);
		fclose(file);
	}
}
#endif

__attribute__((constructor(101))) static void start(void)
{
	DATA_CALLS(FIND)
	OTHER_CALLS(FIND)
#ifdef OUTER
	start_ticks = __rdtsc();
	start_ns = now_ns();
	if (getenv("AROUND")) /* now: servers clear their environment */
		snprintf(path, sizeof(path), "%s", getenv("AROUND"));
#endif
}
