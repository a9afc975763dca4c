/*
 * A server's answer that is of use only for a while: it says until when, and writes as it always does. Runs with and
 * without the library:
 *
 *     cc -I hostlib/include -o deadline_hint hostlib/examples/deadline_hint.c
 *     # policy.json: {"mode": "qclimb", "deadline_step_us": 1000, ...}
 *     qclimb-run --policy policy.json -- ./deadline_hint 5000 20000 &
 *     nc localhost 5000 </dev/null | wc -c
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <qclimb.h>

static char answer[100000];

static int listening(const char *port)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) ||
	    bind(fd, (const struct sockaddr *)&here, sizeof(here)) || listen(fd, 16))
		return -1;
	return fd;
}

static int answer_all(int fd)
{
	for (size_t sent = 0; sent < sizeof(answer);) {
		const ssize_t wrote = write(fd, answer + sent, sizeof(answer) - sent);

		if (wrote < 0)
			return -1;
		sent += (size_t)wrote;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t deadline_us;
	int listener, fd, taken;

	if (argc != 3) {
		fprintf(stderr, "usage: %s PORT DEADLINE-US\n", argv[0]);
		return 2;
	}
	deadline_us = (uint32_t)strtoul(argv[2], NULL, 10);
	listener = listening(argv[1]);
	fd = listener < 0 ? -1 : accept(listener, NULL, NULL);
	if (fd < 0) {
		perror("listen");
		return 1;
	}
	taken = qclimb_flow_deadline(fd, deadline_us);
	if (answer_all(fd)) {
		perror("write");
		return 1;
	}
	printf("%s\n", taken ? "hinted" : "unhinted");
	return close(fd) ? 1 : 0;
}
