/*
 * Connections on loopback, for bench/shim_connections.py. Knows nothing of qclimb.
 *   both BYTES COUNT   opens and closes COUNT connections, both ends in this process, BYTES each way (0: none) by each;
 *                      prints nanoseconds of CPU time a connection
 *   serve COUNT        prints its port, accepts COUNT connections and closes each; prints nanoseconds of CPU time a
 *                      connection
 *   visit PORT COUNT   connects COUNT times and waits for the end of each; prints the same
 *   hold COUNT         opens COUNT connections, 64 bytes each way, and keeps both ends; prints how many bytes of
 *                      resident memory each end took
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define MESSAGE 64
#define WARM 200

static char bytes[4096];

static double resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, resident = 0;

	must(file && fscanf(file, "%ld %ld", &all, &resident) == 2, "statm");
	fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static int listening(struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must(!bind(listener, (struct sockaddr *)address, sizeof(*address)), "bind");
	must(!listen(listener, 64), "listen");
	must(!getsockname(listener, (struct sockaddr *)address, &len), "getsockname");
	return listener;
}

static int connected(const struct sockaddr_in *address)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	must(!connect(fd, (const struct sockaddr *)address, sizeof(*address)), "connect");
	return fd;
}

static void pass(int from, int to, size_t len)
{
	must(send(from, bytes, len, 0) == (ssize_t)len, "send");
	must(recv(to, bytes, len, MSG_WAITALL) == (ssize_t)len, "recv");
}

/* By RST: nothing stays in TIME-WAIT, so that ports last. */
static void drop(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	close(fd);
}

static double both(size_t len, long count)
{
	struct sockaddr_in address;
	const int listener = listening(&address);
	double start = 0;

	for (long i = -WARM; i < count; i++) {
		int a, b;

		if (i == 0)
			start = cpu_ns();
		a = connected(&address);
		b = accept(listener, NULL, NULL);
		if (len) {
			pass(a, b, len);
			pass(b, a, len);
		}
		drop(a);
		close(b);
	}
	return (cpu_ns() - start) / (double)count;
}

static double serve(long count)
{
	struct sockaddr_in address;
	const int listener = listening(&address);
	double start = 0;

	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (long i = -WARM; i < count; i++) {
		if (i == 0)
			start = cpu_ns();
		close(accept(listener, NULL, NULL));
	}
	return (cpu_ns() - start) / (double)count;
}

static double visit(int port, long count)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	double start = 0;

	for (long i = -WARM; i < count; i++) {
		int fd;

		if (i == 0)
			start = cpu_ns();
		fd = connected(&address);
		must(recv(fd, bytes, 1, 0) == 0, "end");
		drop(fd);
	}
	return (cpu_ns() - start) / (double)count;
}

static double hold(long count)
{
	const rlim_t fds = (rlim_t)(2 * (count + WARM) + 100);
	struct sockaddr_in address;
	double before = 0;
	int listener;

	must(!setrlimit(RLIMIT_NOFILE, &(struct rlimit){ fds, fds }), "setrlimit");
	listener = listening(&address);
	for (long i = -WARM; i < count; i++) {
		int a, b;

		if (i == 0)
			before = resident_bytes();
		a = connected(&address);
		b = accept(listener, NULL, NULL);
		pass(a, b, MESSAGE);
		pass(b, a, MESSAGE);
	}
	return (resident_bytes() - before) / (double)(2 * count);
}

int main(int count, char **argument)
{
	const char kind = count > 2 ? argument[1][0] : 0;
	const long number = count > 2 ? atol(argument[count - 1]) : 0;

	must(number > 0, "usage: shim_connections both BYTES COUNT | serve COUNT | visit PORT COUNT | hold COUNT");
	printf("%.1f\n", kind == 'b'   ? both((size_t)atol(argument[2]), number)
			 : kind == 's' ? serve(number)
			 : kind == 'v' ? visit(atoi(argument[2]), number)
				       : hold(number));
	return 0;
}
