/*
 * What it costs to be there at all: a preloaded library that takes the calls of a server's data path and only hands them
 * on; with -DCOUNT it also adds up the bytes of each descriptor. To be preloaded by bench/shim_programs.py as the
 * reference beside the library: nobody who stands there can pay less. Knows nothing of qclimb.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shim_calls.h"

#ifdef COUNT
#define FDS 65536
static struct {
	uint64_t sent, read;
} bytes[FDS];
#define NOTE(way, fd, moved)                                                                                           \
	do {                                                                                                           \
		if ((moved) > 0 && (unsigned int)(fd) < FDS)                                                           \
			bytes[fd].way += (uint64_t)(moved);                                                            \
	} while (0)
#else
#define NOTE(way, fd, moved) (void)0
#endif

/* A call of this name, its arguments as declared and as handed on. */
#define FORWARD(result, way, name, arguments, ...)                                                                     \
	static result(*real_##name) arguments;                                                                         \
	result name arguments                                                                                          \
	{                                                                                                              \
		const result moved = real_##name(__VA_ARGS__);                                                         \
		NOTE(way, fd, moved);                                                                                  \
		return moved;                                                                                          \
	}

DATA_CALLS(FORWARD)

static int (*real_close)(int fd);
int close(int fd)
{
	return real_close(fd);
}

__attribute__((constructor)) static void start(void)
{
	DATA_CALLS(FIND)
	FIND(int, closed, close)
}
