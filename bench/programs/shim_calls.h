/*
 * The calls of a server's data path that the benchmarks' preloaded libraries hand on: each as CALL(result, way, name,
 * arguments as declared, arguments as handed on...); `way` is sent or read. One list for shim_forward.c and shim_inside.c.
 */
#ifndef SHIM_CALLS_H
#define SHIM_CALLS_H

#define DATA_CALLS(CALL)                                                                                               \
	CALL(ssize_t, sent, send, (int fd, const void *from, size_t len, int flags), fd, from, len, flags)             \
	CALL(ssize_t, sent, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)            \
	CALL(ssize_t, sent, write, (int fd, const void *from, size_t len), fd, from, len)                              \
	CALL(ssize_t, sent, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)                  \
	CALL(ssize_t, sent, sendfile64, (int fd, int from, off64_t *offset, size_t len), fd, from, offset, len)        \
	CALL(ssize_t, read, recv, (int fd, void *to, size_t len, int flags), fd, to, len, flags)                       \
	CALL(ssize_t, read, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)                  \
	CALL(ssize_t, read, read, (int fd, void *to, size_t len), fd, to, len)                                         \
	CALL(ssize_t, read, readv, (int fd, const struct iovec *parts, int count), fd, parts, count)

/* libc's own, into real_NAME. */
#define FIND(result, way, name, ...) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name);

#endif
