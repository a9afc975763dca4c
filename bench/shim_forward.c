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
#define FORWARD(way, name, arguments, ...)                                                                             \
	static ssize_t(*real_##name) arguments;                                                                        \
	ssize_t name arguments                                                                                         \
	{                                                                                                              \
		const ssize_t moved = real_##name(__VA_ARGS__);                                                        \
		NOTE(way, fd, moved);                                                                                  \
		return moved;                                                                                          \
	}

FORWARD(sent, send, (int fd, const void *from, size_t len, int flags), fd, from, len, flags)
FORWARD(sent, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
FORWARD(sent, write, (int fd, const void *from, size_t len), fd, from, len)
FORWARD(sent, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
FORWARD(sent, sendfile64, (int fd, int from, off64_t *offset, size_t len), fd, from, offset, len)
FORWARD(read, recv, (int fd, void *to, size_t len, int flags), fd, to, len, flags)
FORWARD(read, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
FORWARD(read, read, (int fd, void *to, size_t len), fd, to, len)
FORWARD(read, readv, (int fd, const struct iovec *parts, int count), fd, parts, count)

static int (*real_close)(int fd);
int close(int fd)
{
	return real_close(fd);
}

#define FIND(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name)
__attribute__((constructor)) static void start(void)
{
	FIND(send);
	FIND(sendmsg);
	FIND(write);
	FIND(writev);
	FIND(sendfile64);
	FIND(recv);
	FIND(recvmsg);
	FIND(read);
	FIND(readv);
	FIND(close);
}
