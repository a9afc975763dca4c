#include "optax/window.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>

#include "optax/rates.h"

#define LEAST_RCVBUF 4096 /* the kernel doubles it: room for two full segments, their memory included */
#define LEAST_SEGMENTS 2u
#define FREE_RCVBUF ((int)(12 * SEGMENT_BYTES)) /* a sender's first flight of ten, their memory included */
#define NO_CLAMP (1 << 30)
#define RCV_WND 58 /* of struct tcp_info in words of 32 bits: tcpi_rcv_wnd, Linux 6.2 */

#define RCVBUF_LOCK 2 /* SOCK_RCVBUF_LOCK */
#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72 /* Linux 5.15 */
#endif

static void set(int fd, int level, int option, int value)
{
	(void)sys_setsockopt(fd, level, option, value);
}

static void clamp(struct received *flow, int fd, enum received_window window, uint32_t segments)
{
	set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, (int)(segments * SEGMENT_BYTES));
	flow->window = window;
	flow->segments = segments;
}

/* Whether the kernel leaves the buffer as it is; the lock of the other buffer is somebody else's. */
static void lock_buffer(int fd, bool is_locked)
{
	const int lock = sys_option(fd, SOL_SOCKET, SO_BUF_LOCK);

	set(fd, SOL_SOCKET, SO_BUF_LOCK, is_locked ? lock | RCVBUF_LOCK : lock & ~RCVBUF_LOCK);
}

/* At least so much, as getsockopt has it; never less than before. */
static void widen_buffer(int fd, int bytes)
{
	if (sys_option(fd, SOL_SOCKET, SO_RCVBUF) < bytes)
		set(fd, SOL_SOCKET, SO_RCVBUF, bytes / 2);
	else
		lock_buffer(fd, true);
}

/*
 * Bytes that are to be read until all has come that was let in: what the peer may still send, and what waits. Never too
 * few: a window lies within its buffer.
 */
static uint64_t offered(int fd, int buffer)
{
	uint32_t info[RCV_WND + 1] = { 0 };
	int waiting = 0;

	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, sizeof(info)) || !info[RCV_WND] ||
	    qclimb_syscall(SYS_ioctl, fd, SIOCINQ, &waiting) || waiting < 0)
		return (uint64_t)buffer;
	return info[RCV_WND] + (uint64_t)waiting;
}

bool window_begin(struct received *flow, int fd, bool is_free)
{
	int lock = 0;

	if (sys_getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, sizeof(lock)) || lock & RCVBUF_LOCK ||
	    sys_getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &flow->old_rcvbuf, sizeof(int)))
		return false;
	set(fd, SOL_SOCKET, SO_RCVBUF, is_free ? FREE_RCVBUF : LEAST_RCVBUF);
	set(fd, SOL_SOCKET, SO_BUF_LOCK, lock);
	flow->window = is_free ? WINDOW_FREE : WINDOW_FIRST;
	return true;
}

void window_least(struct received *flow, int fd)
{
	int buffer;

	if (flow->window == WINDOW_LEAST || (flow->window == WINDOW_CLOSING && flow->offered))
		return;
	buffer = flow->window == WINDOW_CLOSING ? 0 : sys_option(fd, SOL_SOCKET, SO_RCVBUF);
	if (buffer <= 2 * LEAST_RCVBUF) {
		set(fd, SOL_SOCKET, SO_RCVBUF, LEAST_RCVBUF);
		flow->window = WINDOW_LEAST;
		return;
	}
	flow->offered = offered(fd, buffer);
	lock_buffer(fd, true);
	clamp(flow, fd, WINDOW_CLOSING, LEAST_SEGMENTS);
}

/* Where it differs from the one in force by an eighth: each change is two system calls. */
void window_heads(struct received *flow, int fd, uint32_t segments)
{
	if (flow->window == WINDOW_HEADS && flow->segments - flow->segments / 8 <= segments &&
	    segments <= flow->segments + flow->segments / 8)
		return;
	/* A larger buffer first: the clamp lies within. */
	if (flow->window != WINDOW_HEADS || flow->segments < segments)
		widen_buffer(fd, (int)(4 * segments * SEGMENT_BYTES));
	clamp(flow, fd, WINDOW_HEADS, segments);
}

void window_large(struct received *flow, int fd, uint32_t segments, uint64_t now)
{
	if (flow->window == WINDOW_LARGE && flow->segments == segments && now - flow->set_ns < RATES_SAMPLE_NS)
		return;
	if (flow->window != WINDOW_LARGE)
		window_kernels(flow, fd);
	flow->set_ns = now;
	clamp(flow, fd, WINDOW_LARGE, segments);
}

void window_free(struct received *flow, int fd)
{
	if (flow->window != WINDOW_FREE)
		window_kernels(flow, fd);
}

void window_kernels(struct received *flow, int fd)
{
	if (flow->window == WINDOW_KERNELS)
		return;
	if (flow->window != WINDOW_LARGE) { /* which has the kernel's buffer */
		widen_buffer(fd, flow->old_rcvbuf);
		lock_buffer(fd, false);
	}
	set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, NO_CLAMP);
	flow->window = WINDOW_KERNELS;
}

void window_read(struct received *flow, uint64_t got)
{
	flow->offered -= got < flow->offered ? got : flow->offered;
}
