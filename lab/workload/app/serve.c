/*
 * `traffic serve`: one service on one port. A thread a connection, blocking sockets. Answers a PULL with as many
 * bytes as were asked for, written by this service's habit; reads pushed DATA and answers DONE.
 * Ends on SIGTERM; prints "ready" when it listens.
 */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "marks.h"
#include "message.h"
#include "script.h"

/*
 * As many as net.core.somaxconn allows, which lab/fabric raises (plan.py says what becomes of handshakes whose last ACK comes late where it
 * does not).
 */
enum { BACKLOG = 65535 };

static struct habit habit;

static int serve_one(int fd, const struct message *request)
{
	uint64_t stamp_ns;
	int result;

	switch (request->kind) {
	case MESSAGE_PULL:
		return message_send_data(fd, &habit, request->id, request->bytes, &stamp_ns);
	case MESSAGE_DATA:
		result = message_receive_body(fd, request, &stamp_ns);
		if (result)
			return result;
		return message_send_header(fd, MESSAGE_DONE, request->id, request->bytes, stamp_ns);
	default:
		return -EBADMSG;
	}
}

static void *serve_connection(void *argument)
{
	int fd = (int)(intptr_t)argument;
	struct message request;
	int result;

	do {
		result = message_receive_header(fd, &request);
		if (!result)
			result = serve_one(fd, &request);
	} while (!result);
	if (result != -EPIPE && result != -ECONNRESET)
		fprintf(stderr, "traffic serve: a connection ended: %s\n", strerror(-result));
	close(fd);
	return NULL;
}

int serve_main(int argc, char **argv)
{
	static const struct option options[] = {{"bind", required_argument, NULL, 'b'},
						{"port", required_argument, NULL, 'p'},
						{"write", required_argument, NULL, 'w'},
						{"trace", required_argument, NULL, 't'},
						{"words", required_argument, NULL, 'o'},
						{"marks", required_argument, NULL, 'k'},
						{NULL, 0, NULL, 0}};
	struct sockaddr_in here = {.sin_family = AF_INET};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'b':
			here.sin_addr = address_of("--bind", optarg);
			break;
		case 'p':
			here.sin_port = htons((uint16_t)number_of("--port", optarg, 1, 65535));
			break;
		case 'w':
			if (habit_parse(&habit, optarg))
				refuse("--write: '%s' is not one, two or chunks:BYTES[:THINK_US] with BYTES >= 32", optarg);
			break;
		case 't':
			script_read_trace(optarg);
			break;
		case 'o':
			script_read_words(optarg);
			break;
		case 'k':
			marks_to(optarg);
			break;
		default:
			refuse("see `traffic` for its options");
		}
	}
	if (!here.sin_port)
		refuse("--port is missing");
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&here, sizeof(here)) || listen(listener, BACKLOG))
		refuse("cannot listen on %s port %u: %s", inet_ntoa(here.sin_addr), ntohs(here.sin_port), strerror(errno));
	puts("ready");
	fflush(stdout);

	pthread_attr_t small_stack;

	pthread_attr_init(&small_stack);
	pthread_attr_setstacksize(&small_stack, 128 << 10);
	pthread_attr_setdetachstate(&small_stack, PTHREAD_CREATE_DETACHED);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (pthread_create(&thread, &small_stack, serve_connection, (void *)(intptr_t)fd)) {
			fprintf(stderr, "traffic serve: no thread for a connection\n");
			close(fd);
		}
	}
}
