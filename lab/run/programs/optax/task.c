/*
 * The experiment's applications: plain sockets, nothing of qclimb. A server that sends as many bytes as it is asked for, and a client whose
 * task is a request to each of several servers, all at once; it prints when its last byte came.
 *
 *   task serve PORT
 *   task fetch MODE START_NS BYTES[@PACE] ADDRESS:PORT...
 *
 * MODE: threads, poll, select, epoll, epoll-et; START_NS: CLOCK_MONOTONIC; PACE: of each answer, 1000 bytes a second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define PACE_SHIFT 40 /* of a request: below are the bytes that are asked for, above the pace of sending */
#define FLOWS_MOST 64
#define SAMPLES_MOST 4096
#define SAMPLE_NS UINT64_C(50000000)

struct flow {
	int fd;
	uint64_t left;
	struct sockaddr_in to;
};

static struct flow flows[FLOWS_MOST];
static int flow_count;
static uint64_t pace_kbs; /* 1000 bytes a second; 0: as fast as it can */
static uint64_t first_ns;
static _Atomic uint64_t received;
static _Atomic uint32_t samples; /* only of long tasks: bytes so far, every SAMPLE_NS */
static uint64_t sample_ns[SAMPLES_MOST], sample_bytes[SAMPLES_MOST];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* --- server */

static void *answer(void *argument)
{
	static const char bytes[CHUNK];
	const int fd = (int)(intptr_t)argument;
	uint64_t left;

	while (recv(fd, &left, sizeof(left), MSG_WAITALL) == sizeof(left)) {
		const unsigned int pace = (unsigned int)(left >> PACE_SHIFT) * 1000;

		if (pace)
			setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, sizeof(pace));
		left &= (UINT64_C(1) << PACE_SHIFT) - 1;
		while (left) {
			const ssize_t sent = send(fd, bytes, left < CHUNK ? left : CHUNK, 0);

			if (sent < 0)
				break;
			left -= (uint64_t)sent;
		}
	}
	close(fd);
	return NULL;
}

static void serve(int port)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&own, sizeof(own)) || listen(listener, 256))
		fail("listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		const int fd = accept(listener, NULL, NULL);
		pthread_t thread;

		if (fd < 0)
			continue;
		if (pthread_create(&thread, NULL, answer, (void *)(intptr_t)fd))
			fail("thread");
		pthread_detach(thread);
	}
}

/* --- client */

static void count(struct flow *flow, uint64_t got)
{
	const uint64_t sum = __atomic_add_fetch((uint64_t *)&received, got, __ATOMIC_SEQ_CST);
	const uint64_t now = now_ns();
	uint32_t n = samples;

	flow->left -= got;
	if (n < SAMPLES_MOST && now - first_ns > (n + 1) * SAMPLE_NS &&
	    __atomic_compare_exchange_n((uint32_t *)&samples, &n, n + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		sample_ns[n] = now;
		sample_bytes[n] = sum;
	}
}

/* Reads once; false: nothing there now. */
static bool take(struct flow *flow)
{
	static __thread char bytes[CHUNK];
	const ssize_t got = recv(flow->fd, bytes, flow->left < CHUNK ? flow->left : CHUNK, 0);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0)
		fail("recv");
	count(flow, (uint64_t)got);
	return true;
}

static void begin(struct flow *flow)
{
	const uint64_t asked = flow->left | pace_kbs << PACE_SHIFT;

	flow->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(flow->fd, (struct sockaddr *)&flow->to, sizeof(flow->to)))
		fail("connect");
	if (send(flow->fd, &asked, sizeof(asked), 0) != sizeof(asked))
		fail("send");
}

static void *by_thread(void *argument)
{
	struct flow *flow = argument;

	begin(flow);
	while (flow->left)
		take(flow);
	return NULL;
}

static int left_flows(void)
{
	int left = 0;

	for (int i = 0; i < flow_count; i++)
		left += flows[i].left > 0;
	return left;
}

static void by_poll(void)
{
	struct pollfd polls[FLOWS_MOST];

	while (left_flows()) {
		for (int i = 0; i < flow_count; i++)
			polls[i] = (struct pollfd){ flows[i].left ? flows[i].fd : -1, POLLIN, 0 };
		if (poll(polls, (nfds_t)flow_count, 30000) <= 0)
			fail("poll");
		for (int i = 0; i < flow_count; i++)
			if (polls[i].revents)
				take(&flows[i]);
	}
}

static void by_select(void)
{
	while (left_flows()) {
		struct timeval time = { 30, 0 };
		fd_set set;
		int most = 0;

		FD_ZERO(&set);
		for (int i = 0; i < flow_count; i++) {
			if (!flows[i].left)
				continue;
			FD_SET(flows[i].fd, &set);
			most = flows[i].fd > most ? flows[i].fd : most;
		}
		if (select(most + 1, &set, NULL, NULL, &time) <= 0)
			fail("select");
		for (int i = 0; i < flow_count; i++)
			if (flows[i].left && FD_ISSET(flows[i].fd, &set))
				take(&flows[i]);
	}
}

static void by_epoll(bool edge)
{
	const int loop = epoll_create1(0);
	struct epoll_event events[FLOWS_MOST];

	for (int i = 0; i < flow_count; i++) {
		struct epoll_event event = { EPOLLIN | (edge ? EPOLLET : 0), { .u32 = (uint32_t)i } };

		epoll_ctl(loop, EPOLL_CTL_ADD, flows[i].fd, &event);
	}
	while (left_flows()) {
		const int found = epoll_wait(loop, events, FLOWS_MOST, 30000);

		if (found <= 0)
			fail("epoll_wait");
		for (int i = 0; i < found; i++) {
			struct flow *flow = &flows[events[i].data.u32];

			while (flow->left && take(flow) && edge)
				;
		}
	}
}

static void fetch(const char *mode)
{
	pthread_t threads[FLOWS_MOST];

	if (!strcmp(mode, "threads")) {
		for (int i = 0; i < flow_count; i++)
			if (pthread_create(&threads[i], NULL, by_thread, &flows[i]))
				fail("thread");
		for (int i = 0; i < flow_count; i++)
			pthread_join(threads[i], NULL);
		return;
	}
	for (int i = 0; i < flow_count; i++) {
		begin(&flows[i]);
		fcntl(flows[i].fd, F_SETFL, O_NONBLOCK);
	}
	if (!strcmp(mode, "poll"))
		by_poll();
	else if (!strcmp(mode, "select"))
		by_select();
	else
		by_epoll(!strcmp(mode, "epoll-et"));
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc < 6 || strcmp(argv[1], "fetch") || argc - 5 > FLOWS_MOST) {
		fputs("task serve PORT | task fetch MODE START_NS BYTES ADDRESS:PORT...\n", stderr);
		return 2;
	}
	for (int i = 5; i < argc; i++) {
		struct flow *flow = &flows[flow_count++];
		char *port = strchr(argv[i], ':'), *at;

		if (!port)
			return 2;
		*port = 0;
		flow->left = strtoull(argv[4], &at, 10);
		pace_kbs = *at == '@' ? strtoull(at + 1, NULL, 10) : 0;
		flow->to.sin_family = AF_INET;
		flow->to.sin_port = htons((uint16_t)atoi(port + 1));
		if (inet_pton(AF_INET, argv[i], &flow->to.sin_addr) != 1)
			return 2;
	}
	first_ns = strtoull(argv[3], NULL, 10);
	while (now_ns() < first_ns) {
		const struct timespec until = { (time_t)(first_ns / 1000000000), (long)(first_ns % 1000000000) };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	fetch(argv[2]);
	printf("{\"start_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"samples\": [", first_ns, now_ns(),
	       received);
	for (uint32_t i = 0; i < samples; i++)
		printf("%s[%" PRIu64 ", %" PRIu64 "]", i ? ", " : "", sample_ns[i] - first_ns, sample_bytes[i]);
	puts("]}");
	return 0;
}
