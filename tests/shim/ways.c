/*
 * An application that reaches its socket by one way after another: `ways WAY ADDRESS PORT`. What it sends is byte_at() of the position,
 * so that the other side can tell. Exit 0; 77 and a reason where the kernel lacks the way; or an abort that says what was wrong.
 * Knows nothing of qclimb. Built with _FORTIFY_SOURCE: reads into buffers of known size become __recv_chk and its like.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define MUST(what) ((what) ? (void)0 : fail(#what, __LINE__))
#define TOTAL 150000
#define CALL 25000

int fcntl64(int fd, int command, ...);
extern char **environ;

static uint8_t stream[TOTAL];
static struct sockaddr_storage peer;
static socklen_t peer_len;

static void fail(const char *what, int line)
{
	fprintf(stderr, "ways:%d: not true: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
	abort();
}

static void lack(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(77);
}

static bool is(const char *way, const char *name)
{
	return !strcmp(way, name);
}

static void find_peer(const char *address, int port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&peer;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&peer;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		peer_len = sizeof(*v4);
	} else {
		memset(&peer, 0, sizeof(peer));
		MUST(inet_pton(AF_INET6, address, &v6->sin6_addr) == 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		peer_len = sizeof(*v6);
	}
}

static int connected(int protocol)
{
	const int fd = socket(peer.ss_family, SOCK_STREAM, protocol);

	if (fd < 0 && protocol)
		lack("socket");
	MUST(fd >= 0);
	MUST(!connect(fd, (struct sockaddr *)&peer, peer_len));
	return fd;
}

static void send_all(int fd, size_t from, size_t to)
{
	while (from < to) {
		const ssize_t sent = send(fd, stream + from, to - from, 0);

		MUST(sent > 0);
		from += (size_t)sent;
	}
}

/* Waits until the other side has read all that it wants and says so. */
static void end(int fd)
{
	uint8_t answer;

	MUST(!shutdown(fd, SHUT_WR));
	MUST(recv(fd, &answer, 1, 0) == 1);
	MUST(!close(fd));
}

/* --- ways to write: each takes one call of [at, at + len) and says how much of it went */

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
		return pwritev2(fd, parts, 2, -1, 0);
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
		return sent; /* its completion stays in the error queue, and POLLERR with it, while the next one waits at a boundary */
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

static void write_way(const char *way)
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

/* --- ways to read a byte: the write after it begins a flow */

static void read_by(int fd, const char *way)
{
	uint8_t known[4];
	uint8_t *volatile unknown = known; /* nobody knows how large it is: the plain calls */
	volatile size_t len = 1;
	struct iovec part = { known, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct mmsghdr messages[1] = { { .msg_hdr = message } };
	ssize_t got;

	if (is(way, "recv"))
		got = recv(fd, unknown, len, 0);
	else if (is(way, "recvfrom"))
		got = recvfrom(fd, unknown, len, 0, NULL, NULL);
	else if (is(way, "read"))
		got = read(fd, unknown, len);
	else if (is(way, "__recv_chk"))
		got = recv(fd, known, len, 0);
	else if (is(way, "__recvfrom_chk"))
		got = recvfrom(fd, known, len, 0, NULL, NULL);
	else if (is(way, "__read_chk"))
		got = read(fd, known, len);
	else if (is(way, "readv"))
		got = readv(fd, &part, 1);
	else if (is(way, "recvmsg"))
		got = recvmsg(fd, &message, 0);
	else if (is(way, "recvmmsg"))
		got = recvmmsg(fd, messages, 1, 0, NULL);
	else if (is(way, "peek"))
		got = recv(fd, unknown, len, MSG_PEEK);
	else {
		MUST(is(way, "splice"));
		got = splice(fd, NULL, pipe_fds[1], NULL, 1, 0);
		MUST(read(pipe_fds[0], known, 1) == 1);
	}
	MUST(got == 1 && known[0] == '.');
}

static void read_way(const char *way)
{
	const int fd = connected(0);

	MUST(!pipe(pipe_fds));
	send_all(fd, 0, 3000);
	read_by(fd, way);
	send_all(fd, 3000, 5000);
	end(fd);
}

/* --- descriptors */

static int another(int fd, const char *way)
{
	if (is(way, "dup"))
		return dup(fd);
	if (is(way, "dup2"))
		return dup2(fd, 60);
	if (is(way, "dup3"))
		return dup3(fd, 60, O_CLOEXEC);
	if (is(way, "fcntl"))
		return fcntl(fd, F_DUPFD, 60);
	return fcntl64(fd, F_DUPFD_CLOEXEC, 60);
}

/* A flow goes on by another descriptor while the first one closes. */
static void another_way(const char *way)
{
	const int fd = connected(0);
	int other;

	send_all(fd, 0, 5000);
	other = another(fd, way);
	MUST(other > fd && !close(fd));
	send_all(other, 5000, 20000);
	end(other);
}

/* All at once: the flow ends, and its number is a file's. */
static void close_way(const char *way)
{
	const int fd = connected(0);
	int other;

	send_all(fd, 0, 5000);
	if (is(way, "close_range-cloexec")) {
		MUST(!close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
		send_all(fd, 5000, 20000);
		end(fd);
		return;
	}
	if (is(way, "closefrom"))
		closefrom(3);
	else
		MUST(!close_range(3, ~0u, 0));
	do
		other = open("/dev/null", O_WRONLY);
	while (other >= 0 && other < fd);
	MUST(other == fd && write(other, stream, TOTAL) == TOTAL);
	MUST(send(other, stream, 1, 0) < 0 && errno == ENOTSOCK);
}

/* What a child does to its descriptors is not done to its parent's. */
static void child_way(const char *way)
{
	char *command[] = { "cat", NULL };
	const int fd = connected(0);
	posix_spawn_file_actions_t actions;
	int input[2], status;
	pid_t child;

	send_all(fd, 0, 5000);
	if (is(way, "vfork")) {
		child = vfork();
		if (!child) {
			dup2(2, fd);
			close(fd);
			_exit(0);
		}
	} else {
		MUST(!pipe2(input, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
		MUST(!posix_spawn_file_actions_adddup2(&actions, input[0], 0));
		if (is(way, "posix_spawn"))
			MUST(!posix_spawn_file_actions_addclose(&actions, fd));
		else
			MUST(!posix_spawn_file_actions_adddup2(&actions, fd,
							       1)); /* the child goes on where we stopped */
		MUST(!posix_spawnp(&child, command[0], &actions, NULL, command, environ));
		if (!is(way, "posix_spawn"))
			MUST(write(input[1], stream + 5000, 3000) == 3000);
		MUST(!close(input[1]) && !close(input[0]));
	}
	MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	send_all(fd, is(way, "posix_spawn-writes") ? 8000 : 5000, 20000);
	end(fd);
}

static void pass(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { "x", 1 };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	MUST(sendmsg(over, &message, 0) == 1);
}

static int passed(int over, bool by_many)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = { &byte, 1 };
	struct mmsghdr many = { .msg_hdr = { .msg_iov = &part,
					     .msg_iovlen = 1,
					     .msg_control = control,
					     .msg_controllen = sizeof(control) } };
	int fd;

	if (by_many)
		MUST(recvmmsg(over, &many, 1, 0, NULL) == 1);
	else
		MUST(recvmsg(over, &many.msg_hdr, 0) == 1);
	MUST(CMSG_FIRSTHDR(&many.msg_hdr) && CMSG_FIRSTHDR(&many.msg_hdr)->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&many.msg_hdr)), sizeof(fd));
	return fd;
}

/* A descriptor that comes in a message takes the number of a connection that was closed by a system call of our own. */
static void rights_way(const char *way)
{
	const int fd = connected(0);
	int over[2], other, hidden;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, over));
	other = socket(AF_INET, SOCK_STREAM, 0);
	MUST(syscall(SYS_fcntl, fd, F_DUPFD, 70) >= 70);
	hidden = 70;
	pass(over[0], hidden);
	MUST(!syscall(SYS_close, other));
	send_all(fd, 0, 5000);
	MUST(passed(over[1], is(way, "rights-recvmmsg")) == other);
	send_all(other, 5000, 20000);
	MUST(!syscall(SYS_close, hidden) && !close(other));
	end(fd);
}

static void half_close_way(void)
{
	const int fd = connected(0);
	uint8_t bytes[4096];
	size_t sum = 0;
	ssize_t got;

	send_all(fd, 0, 20000);
	MUST(!shutdown(fd, SHUT_WR));
	MUST(send(fd, stream, 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		sum += (size_t)got;
	MUST(got == 0 && sum == 100001);
	MUST(!close(fd));
}

static void read_half_way(void)
{
	const int fd = connected(0);

	send_all(fd, 0, 5000);
	MUST(!shutdown(fd, SHUT_RD));
	send_all(fd, 5000, 20000);
	MUST(!shutdown(fd, SHUT_WR) && !close(fd));
}

static void urgent_way(void)
{
	const int fd = connected(0);

	send_all(fd, 0, 5000);
	MUST(send(fd, stream + 5000, 1, MSG_OOB) == 1);
	send_all(fd, 5001, 20000);
	end(fd);
}

static void mptcp_way(void)
{
	const int fd = connected(IPPROTO_MPTCP);

	send_all(fd, 0, TOTAL);
	end(fd);
}

/* The other side connects: what is accepted has the listener's options, and none that it did not set. */
static void accept_way(const char *way)
{
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd, value;

	MUST(!setsockopt(listener, SOL_SOCKET, SO_PRIORITY, &(int){ 3 }, sizeof(int)));
	MUST(!setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)));
	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 8));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	fd = is(way, "accept") ? accept(listener, NULL, NULL) : accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	MUST(fd >= 0);
	MUST(fcntl(fd, F_GETFD) == (is(way, "accept") ? 0 : FD_CLOEXEC));
	len = sizeof(value);
	MUST(!getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &value, &len) && value == 3);
	MUST(!getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) && value == 1);
	MUST(!getsockopt(fd, IPPROTO_IP, IP_TOS, &value, &len) && value == 0);
	send_all(fd, 0, 20000);
	end(fd);
}

int main(int count, char **argument)
{
	const char *way = argument[2], *kind = argument[1];

	MUST(count == 5);
	for (size_t i = 0; i < TOTAL; i++)
		stream[i] = (uint8_t)(i * 131 + (i >> 8) * 29);
	find_peer(argument[3], atoi(argument[4]));
	if (is(kind, "write"))
		write_way(way);
	else if (is(kind, "read"))
		read_way(way);
	else if (is(kind, "another"))
		another_way(way);
	else if (is(kind, "close"))
		close_way(way);
	else if (is(kind, "child"))
		child_way(way);
	else if (is(kind, "accept"))
		accept_way(way);
	else if (is(way, "half-close"))
		half_close_way();
	else if (is(way, "read-half"))
		read_half_way();
	else if (is(way, "urgent"))
		urgent_way();
	else if (is(way, "mptcp"))
		mptcp_way();
	else
		rights_way(way);
	return 0;
}
