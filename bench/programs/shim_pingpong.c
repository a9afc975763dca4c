/*
 * 64-byte messages over a loopback connection whose two ends one thread holds, for bench/shim.py: no scheduler in what
 * is measured.
 * `shim_pingpong KIND ROUNDS` prints nanoseconds of CPU time a round:
 *   inside  send and recv in one direction: nothing is read back and no pause is long, so every call lies inside one
 *           flow
 *   flow    a message and its answer: each of the two is a flow of its own
 *   other   write to /dev/null: a descriptor that is none of ours
 * Knows nothing of qclimb.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define BYTES 64

static char bytes[BYTES];

static void pass(int from, int to)
{
	must(send(from, bytes, BYTES, 0) == BYTES, "send");
	must(recv(to, bytes, BYTES, MSG_WAITALL) == BYTES, "recv");
}

int main(int count, char **argument)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	const int a = socket(AF_INET, SOCK_STREAM, 0);
	const int null = open("/dev/null", O_WRONLY);
	const char kind = count == 3 ? argument[1][0] : 0;
	const long rounds = count == 3 ? atol(argument[2]) : 0;
	double start = 0;
	int b;

	must(rounds > 0, "usage: shim_pingpong inside|flow|other ROUNDS");
	must(!bind(listener, (struct sockaddr *)&address, sizeof(address)), "bind");
	must(!listen(listener, 1), "listen");
	must(!getsockname(listener, (struct sockaddr *)&address, &len), "getsockname");
	must(!connect(a, (struct sockaddr *)&address, sizeof(address)), "connect");
	b = accept(listener, NULL, NULL);
	setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	for (long i = -1000; i < rounds; i++) {
		if (i == 0)
			start = cpu_ns();
		if (kind == 'o') {
			must(write(null, bytes, BYTES) == BYTES, "write");
			continue;
		}
		pass(a, b);
		if (kind == 'f')
			pass(b, a);
	}
	printf("%.1f\n", (cpu_ns() - start) / (double)rounds);
	return 0;
}
