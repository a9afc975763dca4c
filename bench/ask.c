/*
 * `ask PORT CONNECTIONS ROUNDS REQUEST BYTES`: what a service carries: in each round REQUEST (\n for a line's end) goes
 * out on every connection, then an answer of BYTES is read from each. Prints requests a second. For
 * bench/shim_programs.py; knows nothing of qclimb.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define MOST 256

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

int main(int count, char **argument)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static char request[8192], answer[1 << 20];
	int fd[MOST], connections;
	long rounds, bytes;
	size_t len;
	double start = 0;

	must(count == 6 && strlen(argument[4]) < sizeof(request) / 2,
	     "usage: ask PORT CONNECTIONS ROUNDS REQUEST BYTES");
	to.sin_port = htons((uint16_t)atoi(argument[1]));
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
	for (long round = -20; round < rounds; round++) {
		if (round == 0)
			start = now_s();
		for (int i = 0; i < connections; i++)
			must(send(fd[i], request, len, 0) == (ssize_t)len, "send");
		for (int i = 0; i < connections; i++)
			must(recv(fd[i], answer, (size_t)bytes, MSG_WAITALL) == bytes, "answer");
	}
	printf("%.1f\n", (double)rounds * connections / (now_s() - start));
	return 0;
}
