/*
 * An application that reaches its socket by one way after another: `ways WAY ADDRESS PORT`. What it sends is byte_at()
 * of the position, so that the other side can tell. Exit 0; 77 and a reason where the kernel lacks the way; or an abort
 * that says what was wrong. Knows nothing of qclimb. Built with _FORTIFY_SOURCE: reads into buffers of known size
 * become __recv_chk and its like.
 */
#include "ways.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

uint8_t stream[TOTAL];
struct sockaddr_storage peer;
socklen_t peer_len;

void fail(const char *file, const char *what, int line)
{
	fprintf(stderr, "%s:%d: not true: %s (errno %d: %s)\n", file, line, what, errno, strerror(errno));
	abort();
}

void lack(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(77);
}

bool is(const char *way, const char *name)
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

int connected(int protocol)
{
	const int fd = socket(peer.ss_family, SOCK_STREAM, protocol);

	if (fd < 0 && protocol)
		lack("socket");
	MUST(fd >= 0);
	MUST(!connect(fd, (struct sockaddr *)&peer, peer_len));
	return fd;
}

void send_all(int fd, size_t from, size_t to)
{
	while (from < to) {
		const ssize_t sent = send(fd, stream + from, to - from, 0);

		MUST(sent > 0);
		from += (size_t)sent;
	}
}

void end(int fd)
{
	uint8_t answer;

	MUST(!shutdown(fd, SHUT_WR));
	MUST(recv(fd, &answer, 1, 0) == 1);
	MUST(!close(fd));
}

/* --- half a connection, and what needs nothing but a socket */

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

/* What no memory is, in each place where a list stands: the kernel refuses it, and the connection goes on. */
static void bad_address_way(void)
{
	void *const bad[] = { NULL, (void *)8, (void *)-1, (void *)-4096 };
	const int fd = connected(0);

	send_all(fd, 0, 5000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct iovec part = { bad[i], 100 };
		struct msghdr of_bad = { .msg_iov = bad[i], .msg_iovlen = 2 };
		struct mmsghdr many = { .msg_hdr = of_bad };

		MUST(writev(fd, bad[i], 2) < 0 && errno == EFAULT);
		MUST(writev(fd, &part, 1) < 0 && errno == EFAULT);
		MUST(sendmsg(fd, &of_bad, 0) < 0 && errno == EFAULT);
		MUST(sendmmsg(fd, &many, 1, 0) < 0 && errno == EFAULT);
		MUST(send(fd, bad[i], 100, 0) < 0 && errno == EFAULT);
		MUST(recv(fd, bad[i], 100, MSG_DONTWAIT) < 0 && (errno == EFAULT || errno == EAGAIN));
		if (bad[i])
			MUST(sendfile(fd, 0, bad[i], 100) < 0);
	}
	send_all(fd, 5000, 20000);
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
	else if (is(way, "bad-address"))
		bad_address_way();
	else if (is(way, "fclose"))
		fclose_way();
	else if (is(way, "mptcp"))
		mptcp_way();
	else
		rights_way(way);
	return 0;
}
