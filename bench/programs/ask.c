/*
 * `ask [ADDRESS:]PORT CONNECTIONS ROUNDS REQUEST BYTES [sleep]`: what a service carries: in each round REQUEST (\n for a line's
 * end) goes out on every connection, then an answer of BYTES is read from each. Prints requests a second. For
 * bench/shim_programs.py; knows nothing of qclimb.
 *
 * It asks again and again for what has not come. A load that sleeps must be woken, on one machine at the cost of the
 * server that answers, and the more often the slower the server is. A client on another machine is not its server's to
 * wake. `sleep` has it sleep.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define MOST 256
#define FIRST_ROUNDS 20 /* not timed */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* "\n" as two characters becomes a line's end as protocols have it. */
static size_t request_of(const char *text, char *request)
{
	size_t len = 0;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] == 'n') {
			request[len++] = '\r';
			request[len++] = '\n';
			text++;
		} else {
			request[len++] = *text;
		}
	}
	return len;
}

static void take(int fd, char *answer, size_t bytes, bool sleeps)
{
	size_t got = 0;

	while (got < bytes) {
		const ssize_t part = recv(fd, answer, bytes - got, sleeps ? MSG_WAITALL : MSG_DONTWAIT);

		must(part > 0 || (part < 0 && errno == EAGAIN), "answer");
		got += part > 0 ? (size_t)part : 0;
	}
}

int main(int count, char **argument)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static char request[8192], answer[1 << 20];
	int fd[MOST], connections;
	long rounds, bytes;
	size_t len;
	double start = 0;
	char *port;
	const bool sleeps = count == 7 && !strcmp(argument[6], "sleep");

	must((count == 6 || sleeps) && strlen(argument[4]) < sizeof(request) / 2,
	     "usage: ask [ADDRESS:]PORT CONNECTIONS ROUNDS REQUEST BYTES [sleep]");
	port = strchr(argument[1], ':');
	if (port) {
		*port = 0;
		must(inet_pton(AF_INET, argument[1], &to.sin_addr) == 1, "address");
	}
	to.sin_port = htons((uint16_t)atoi(port ? port + 1 : argument[1]));
	connections = atoi(argument[2]);
	rounds = atol(argument[3]);
	len = request_of(argument[4], request);
	bytes = atol(argument[5]);
	must(connections > 0 && connections <= MOST && rounds > 0 && bytes > 0 && bytes <= (long)sizeof(answer),
	     "numbers");
	for (int i = 0; i < connections; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		must(!connect(fd[i], (struct sockaddr *)&to, sizeof(to)), "connect");
		setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	}
	for (long round = -FIRST_ROUNDS; round < rounds; round++) {
		if (round == 0)
			start = now_s();
		for (int i = 0; i < connections; i++)
			must(send(fd[i], request, len, 0) == (ssize_t)len, "send");
		for (int i = 0; i < connections; i++)
			take(fd[i], answer, (size_t)bytes, sleeps);
	}
	printf("%.1f\n", (double)rounds * connections / (now_s() - start));
	return 0;
}
