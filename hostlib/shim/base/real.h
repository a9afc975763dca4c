/*
 * libc's own functions. Nobody calls them before qclimb_start() has found them: calls/real.h sees to that.
 */
#ifndef QCLIMB_BASE_REAL_H
#define QCLIMB_BASE_REAL_H

#include "base/shim.h"

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
	X(int, execve, (const char *, char *const *, char *const *))                                                   \
	X(int, execv, (const char *, char *const *))                                                                   \
	X(int, execvp, (const char *, char *const *))                                                                  \
	X(int, execvpe, (const char *, char *const *, char *const *))                                                  \
	X(int, fexecve, (int, char *const *, char *const *))                                                           \
	X(ssize_t, sendfile64, (int, int, off64_t *, size_t))                                                          \
	X(ssize_t, __recv_chk, (int, void *, size_t, size_t, int))                                                     \
	X(ssize_t, __recvfrom_chk, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))                 \
	X(ssize_t, __read_chk, (int, void *, size_t, size_t))                                                          \
	X(int, execveat, (int, const char *, char *const *, char *const *, int))                                       \
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

/* Finds them, and libc's syscall() before them. Once, before anything else of the library runs. */
void real_find(void);

#endif
