/*
 * A number that is taken from under a write: `close` (another connection gets it), `dup2` (the socket has another
 * number, too), or `before` (closed before the write's first byte, behind FIRST_BYTES that nobody reads yet). Says what
 * the writer got, what came to its peer, and what came to the other connection's peer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : (perror(#what), exit(1)))
#define BUFFER_BYTES 65536
#define FIRST_BYTES 150000 /* more than the receiver's window, less than both buffers */

static char bytes[2000000];
static struct sockaddr_in address = { .sin_family = AF_INET };
static int listener, number;
static ssize_t wrote;
static int error;
static bool is_before;
static _Atomic pid_t writing; /* the thread that has the write in hand */

static void *write_all(void *unused)
{
	if (is_before)
		MUST(send(number, bytes, FIRST_BYTES, MSG_NOSIGNAL) == FIRST_BYTES);
	writing = gettid();
	wrote = send(number, bytes, sizeof(bytes), MSG_NOSIGNAL);
	error = wrote < 0 ? errno : 0;
	return unused;
}

static void connected(int *client, int *peer)
{
	const int size = BUFFER_BYTES;

	MUST((*client = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!setsockopt(*client, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	MUST(!connect(*client, (struct sockaddr *)&address, sizeof(address)));
	MUST((*peer = accept(listener, NULL, NULL)) >= 0);
}

static bool is_asleep(pid_t thread)
{
	char name[64], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", thread);
	MUST((file = fopen(name, "r")) && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && !fclose(file));
	return state == 'S';
}

static long read_all(int peer)
{
	static char got[1 << 16];
	long sum = 0;
	ssize_t n;

	while ((n = read(peer, got, sizeof(got))) > 0)
		sum += n;
	return sum;
}

static void *read_peer(void *peer)
{
	return (void *)read_all(*(int *)peer);
}

int main(int argc, char **argv)
{
	const int size = BUFFER_BYTES;
	socklen_t len = sizeof(address);
	int peer, other, other_peer, kept = -1;
	pthread_t writer, reader;
	struct pollfd poll_peer;
	void *got;

	MUST(argc == 2);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 8));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
	connected(&number, &peer);
	is_before = !strcmp(argv[1], "before");
	if (!strcmp(argv[1], "dup2"))
		MUST((kept = dup(number)) >= 0);
	MUST(!pthread_create(&writer, NULL, write_all, NULL));
	poll_peer = (struct pollfd){ peer, POLLIN, 0 };
	MUST(poll(&poll_peer, 1, -1) == 1); /* the write has begun, and waits for room: nobody reads */
	while (is_before && !(writing && is_asleep(writing)))
		usleep(1000);
	if (kept < 0)
		MUST(!close(number));
	connected(&other, &other_peer);
	if (other != number) {
		MUST(dup2(other, number) == number);
		MUST(!close(other));
	}
	MUST(!pthread_create(&reader, NULL, read_peer, &peer));
	pthread_join(writer, NULL);
	MUST(!shutdown(number, SHUT_WR));
	if (kept >= 0)
		MUST(!shutdown(kept, SHUT_WR));
	pthread_join(reader, &got);
	printf("%zd %s %ld %ld\n", wrote, error ? strerrorname_np(error) : "-", (long)got, read_all(other_peer));
	return 0;
}
