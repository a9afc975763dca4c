/* Ways to write: each takes one call of [at, at + len) of the stream and says how much of it went. */
#include "ways.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include <linux/errqueue.h>
#include <linux/io_uring.h>

/* musl has it from 1.2.5 on. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) __attribute__((weak));

static int pipe_fds[2], file_fd, completions;

static ssize_t by_parts(int fd, const char *way, size_t at, size_t len)
{
	struct iovec parts[2] = { { stream + at, len / 3 }, { stream + at + len / 3, len - len / 3 } };
	struct mmsghdr messages[2] = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 1 } },
				       { .msg_hdr = { .msg_iov = parts + 1, .msg_iovlen = 1 } } };
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (is(way, "writev"))
		return writev(fd, parts, 2);
	if (is(way, "pwritev2"))
		return pwritev2 ? pwritev2(fd, parts, 2, -1, 0) : (lack(way), 0);
	if (is(way, "sendmsg"))
		return sendmsg(fd, &message, 0);
	MUST(sendmmsg(fd, messages, 2, 0) == 2);
	MUST(messages[0].msg_len == len / 3);
	return messages[0].msg_len + messages[1].msg_len;
}

/* As proxies do it: into a pipe, and from there on with a count that the pipe may not hold. */
static ssize_t by_pipe(int fd, const char *way, size_t at, size_t len)
{
	struct iovec part = { stream + at, len };

	if (is(way, "vmsplice"))
		MUST(vmsplice(pipe_fds[1], &part, 1, 0) == (ssize_t)len);
	else
		MUST(write(pipe_fds[1], stream + at, len) == (ssize_t)len);
	return splice(pipe_fds[0], NULL, fd, NULL, 1 << 20, SPLICE_F_MOVE);
}

/* The bytes must not change before the kernel says that it is done with them: completion by completion. */
static ssize_t by_zerocopy(int fd, size_t at, size_t len)
{
	char control[128];
	struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
	const ssize_t sent = send(fd, stream + at, len, MSG_ZEROCOPY);
	struct pollfd poll_fd = { fd, 0, 0 };

	if (at == 0)
		/*
		 * its completion stays in the error queue, and POLLERR with it, while the next one waits at a boundary
		 */
		return sent;
	MUST(poll(&poll_fd, 1, 10000) == 1 && poll_fd.revents & POLLERR);
	if (recvmsg(fd, &message, MSG_ERRQUEUE) >= 0) {
		const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		struct sock_extended_err error;

		MUST(head);
		memcpy(&error, CMSG_DATA(head), sizeof(error));
		MUST(error.ee_origin == SO_EE_ORIGIN_ZEROCOPY);
		completions = (int)error.ee_data + 1;
	}
	return sent;
}

static ssize_t by_uring(int fd, size_t at, size_t len)
{
	static struct io_uring_params params;
	static struct io_uring_sqe *entries;
	static uint8_t *ring;
	static int ring_fd = -1;
	uint32_t tail, head;
	struct io_uring_cqe *done;

	if (ring_fd < 0) {
		ring_fd = (int)syscall(SYS_io_uring_setup, 4, &params);
		if (ring_fd < 0)
			lack("io_uring_setup");
		MUST(params.features & IORING_FEAT_SINGLE_MMAP);
		ring = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, IORING_OFF_SQ_RING);
		entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, IORING_OFF_SQES);
		MUST(ring != MAP_FAILED && entries != MAP_FAILED);
	}
	tail = *(uint32_t *)(ring + params.sq_off.tail);
	memset(&entries[tail & 3], 0, sizeof(*entries));
	entries[tail & 3].opcode = IORING_OP_SEND;
	entries[tail & 3].fd = fd;
	entries[tail & 3].addr = (uintptr_t)(stream + at);
	entries[tail & 3].len = (uint32_t)len;
	((uint32_t *)(ring + params.sq_off.array))[tail & 3] = tail & 3;
	__atomic_store_n((uint32_t *)(ring + params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	MUST(syscall(SYS_io_uring_enter, ring_fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
	head = *(uint32_t *)(ring + params.cq_off.head);
	done = (struct io_uring_cqe *)(ring + params.cq_off.cqes) + (head & (params.cq_entries - 1));
	__atomic_store_n((uint32_t *)(ring + params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return done->res;
}

static ssize_t write_by(int fd, const char *way, size_t at, size_t len)
{
	static FILE *file;
	off_t offset = (off_t)at;

	if (is(way, "send"))
		return send(fd, stream + at, len, 0);
	if (is(way, "sendto"))
		return sendto(fd, stream + at, len, 0, NULL, 0);
	if (is(way, "sendto-address") || (is(way, "fastopen") && at == 0))
		return sendto(fd, stream + at, len, at || !is(way, "fastopen") ? 0 : MSG_FASTOPEN,
			      (struct sockaddr *)&peer, peer_len);
	if (is(way, "write") || is(way, "fastopen") || is(way, "fastopen-connect"))
		return write(fd, stream + at, len);
	if (is(way, "sendfile"))
		return sendfile(fd, file_fd, &offset, len);
	if (is(way, "sendfile64"))
		return sendfile64(fd, file_fd, &offset, len);
	if (is(way, "splice") || is(way, "vmsplice"))
		return by_pipe(fd, way, at, len);
	if (is(way, "zerocopy"))
		return by_zerocopy(fd, at, len);
	if (is(way, "syscall"))
		return syscall(SYS_write, fd, stream + at, len);
	if (is(way, "io_uring"))
		return by_uring(fd, at, len);
	if (is(way, "stdio")) {
		if (!file)
			file = fdopen(fd, "w");
		MUST(file && fwrite(stream + at, 1, len, file) == len && !fflush(file));
		return (ssize_t)len;
	}
	return by_parts(fd, way, at, len);
}

void write_way(const char *way)
{
	const bool connects = is(way, "fastopen") || is(way, "fastopen-connect");
	char name[] = "/tmp/qclimb-waysXXXXXX";
	const int fd = connects ? socket(peer.ss_family, SOCK_STREAM, 0) : connected(0);
	ssize_t wrote;

	if (is(way, "fastopen-connect")) {
		MUST(!setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &(int){ 1 }, sizeof(int)));
		MUST(!connect(fd, (struct sockaddr *)&peer, peer_len));
	}
	if (is(way, "zerocopy") && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int)))
		lack("SO_ZEROCOPY");
	file_fd = mkstemp(name);
	MUST(file_fd >= 0 && !unlink(name) && write(file_fd, stream, TOTAL) == TOTAL && !pipe(pipe_fds));
	for (size_t at = 0; at < TOTAL; at += (size_t)wrote) {
		wrote = write_by(fd, way, at, TOTAL - at < CALL ? TOTAL - at : CALL);
		MUST(wrote > 0 && wrote <= CALL);
	}
	if (is(way, "zerocopy"))
		MUST(completions >= TOTAL / CALL - 1); /* one for each call, neither more nor fewer */
	MUST(completions <= TOTAL / CALL);
	end(fd);
}
