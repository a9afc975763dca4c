/*
 * `traffic drive`: what one host's applications do, by a trace. Open loop: a flow begins at its time whatever became of
 * the earlier ones. A thread an active flow, blocking sockets, connections kept in a pool a (server, service).
 * Log, a line a flow: id, bytes, due_ns, begin_ns, start_ns (the sender's first write), end_ns (the receiver's last
 * byte read), status ("ok" or what went wrong). Times are CLOCK_MONOTONIC.
 */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "marks.h"
#include "message.h"
#include "script.h"

enum { MAX_HOSTS = 256, MAX_SERVICES = 16, MAX_WORKERS = 4000, NAME_BYTES = 32 };

enum how { HOW_PULL, HOW_PUSH, HOW_CURL };

struct host {
	char name[NAME_BYTES];
	struct in_addr address;
};

struct service {
	char name[NAME_BYTES];
	uint16_t port;
	enum how how;
	struct habit habit; /* of a push: the client writes */
};

struct flow {
	uint64_t id, bytes, due_ns;
	unsigned host, service; /* index of the server, of the service */
	bool done;              /* logged; guarded by `lock` */
};

/* An idle connection; guarded by `lock`. */
struct kept {
	int fd;
	struct kept *next;
};

static struct host hosts[MAX_HOSTS];
static unsigned host_count;
static struct service services[MAX_SERVICES];
static unsigned service_count;
static unsigned me;
static struct flow *flows;
static size_t flow_count;
static FILE *log_file;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static struct kept *pool[MAX_HOSTS][MAX_SERVICES];
static size_t started;   /* flows handed to workers: flows[0 .. started) */
static size_t taken;     /* flows that a worker has begun */
static size_t completed; /* flows logged */
static unsigned workers;

static int kept_take(const struct flow *flow)
{
	pthread_mutex_lock(&lock);
	struct kept *kept = pool[flow->host][flow->service];

	if (kept)
		pool[flow->host][flow->service] = kept->next;
	pthread_mutex_unlock(&lock);
	if (!kept)
		return -1;
	int fd = kept->fd;

	free(kept);
	return fd;
}

static void kept_give(const struct flow *flow, int fd)
{
	struct kept *kept = malloc(sizeof(*kept));

	if (!kept) {
		close(fd);
		return;
	}
	kept->fd = fd;
	pthread_mutex_lock(&lock);
	kept->next = pool[flow->host][flow->service];
	pool[flow->host][flow->service] = kept;
	pthread_mutex_unlock(&lock);
}

static int open_connection(const struct flow *flow)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = hosts[me].address};
	struct sockaddr_in there = {.sin_family = AF_INET,
				    .sin_addr = hosts[flow->host].address,
				    .sin_port = htons(services[flow->service].port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&here, sizeof(here)) || connect(fd, (struct sockaddr *)&there, sizeof(there))) {
		int result = -errno;

		close(fd);
		return result;
	}
	return fd;
}

static int pull(int fd, const struct flow *flow, uint64_t *start_ns, uint64_t *end_ns)
{
	struct message answer;
	int result = message_send_header(fd, MESSAGE_PULL, flow->id, flow->bytes, 0);

	if (!result)
		result = message_receive_header(fd, &answer);
	if (result)
		return result;
	if (answer.kind != MESSAGE_DATA || answer.id != flow->id || answer.bytes != flow->bytes)
		return -EBADMSG;
	*start_ns = answer.stamp_ns;
	return message_receive_body(fd, &answer, end_ns);
}

static int push(int fd, const struct flow *flow, uint64_t *start_ns, uint64_t *end_ns)
{
	struct message answer;
	int result = message_send_data(fd, &services[flow->service].habit, flow->id, flow->bytes, start_ns);

	if (!result)
		result = message_receive_header(fd, &answer);
	if (result)
		return result;
	if (answer.kind != MESSAGE_DONE || answer.id != flow->id || answer.bytes != flow->bytes)
		return -EBADMSG;
	*end_ns = answer.stamp_ns;
	return 0;
}

static int query(const struct flow *flow, uint64_t begin_ns, uint64_t *start_ns, uint64_t *end_ns)
{
	char there[INET_ADDRSTRLEN], here[INET_ADDRSTRLEN], url[128];

	inet_ntop(AF_INET, &hosts[flow->host].address, there, sizeof(there));
	inet_ntop(AF_INET, &hosts[me].address, here, sizeof(here));
	snprintf(url, sizeof(url), "http://%s:%u/%llu", there, services[flow->service].port,
		 (unsigned long long)flow->bytes);
	struct query answer = query_run(url, here);

	if (answer.status != 200 || answer.bytes != flow->bytes)
		return -EBADMSG;
	*start_ns = begin_ns + answer.connect_ns;
	*end_ns = begin_ns + answer.total_ns;
	return 0;
}

static int run_flow(const struct flow *flow, uint64_t begin_ns, uint64_t *start_ns, uint64_t *end_ns)
{
	const struct service *service = &services[flow->service];

	if (service->how == HOW_CURL)
		return query(flow, begin_ns, start_ns, end_ns);
	int fd = kept_take(flow);

	if (fd < 0)
		fd = open_connection(flow);
	if (fd < 0)
		return fd;
	int result = (service->how == HOW_PUSH ? push : pull)(fd, flow, start_ns, end_ns);

	if (result)
		close(fd);
	else
		kept_give(flow, fd);
	return result;
}

static void log_flow(const struct flow *flow, uint64_t begin_ns, uint64_t start_ns, uint64_t end_ns, const char *status)
{
	fprintf(log_file, "%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%s\n", (unsigned long long)flow->id,
		(unsigned long long)flow->bytes, (unsigned long long)flow->due_ns, (unsigned long long)begin_ns,
		(unsigned long long)start_ns, (unsigned long long)end_ns, status);
}

static void *worker(void *argument)
{
	(void)argument;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (taken == started)
			pthread_cond_wait(&work, &lock);
		struct flow *flow = &flows[taken++];

		pthread_mutex_unlock(&lock);
		uint64_t begin_ns = now_ns(), start_ns = 0, end_ns = 0;
		int result = run_flow(flow, begin_ns, &start_ns, &end_ns);

		pthread_mutex_lock(&lock);
		flow->done = true;
		log_flow(flow, begin_ns, start_ns, end_ns, result ? strerrorname_np(-result) : "ok");
		completed++;
		pthread_cond_signal(&finished);
	}
	return NULL;
}

/* Hands flows[started] over; makes a worker when more flows wait than workers are idle. */
static void start_flow(void)
{
	pthread_mutex_lock(&lock);
	started++;
	bool more = workers < MAX_WORKERS && workers < started - completed;

	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	if (!more)
		return;
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (!pthread_create(&thread, &attributes, worker, NULL))
		workers++;
	pthread_attr_destroy(&attributes);
}

static unsigned host_index(const char *name)
{
	for (unsigned i = 0; i < host_count; i++)
		if (!strcmp(hosts[i].name, name))
			return i;
	return MAX_HOSTS;
}

static void add_host(const char *text)
{
	struct host *host = &hosts[host_count];
	char address[64];

	if (host_count == MAX_HOSTS)
		refuse("--host: at most %d", MAX_HOSTS);
	if (sscanf(text, "%31[^=]=%63s", host->name, address) != 2)
		refuse("--host: '%s' is not NAME=ADDRESS", text);
	host->address = address_of("--host", address);
	host_count++;
}

static void add_service(const char *text)
{
	struct service *service = &services[service_count];
	char how[8] = "", habit[40] = "one";
	unsigned port;

	if (service_count == MAX_SERVICES)
		refuse("--service: at most %d", MAX_SERVICES);
	if (sscanf(text, "%31[^=]=%u,%7[a-z],%39s", service->name, &port, how, habit) < 3 || !port || port > 65535)
		refuse("--service: '%s' is not NAME=PORT,pull|push|curl[,WRITE]", text);
	service->port = (uint16_t)port;
	if (!strcmp(how, "pull"))
		service->how = HOW_PULL;
	else if (!strcmp(how, "push"))
		service->how = HOW_PUSH;
	else if (!strcmp(how, "curl"))
		service->how = HOW_CURL;
	else
		refuse("--service: '%s' is not pull, push or curl", how);
	if (habit_parse(&service->habit, habit))
		refuse("--service: '%s' is not one, two or chunks:BYTES[:THINK_US] with BYTES >= 32", habit);
	service_count++;
}

/* Our lines of the trace: id, time_us, service, client, server, bytes; more is script.c's; '#' begins a comment. */
static void read_trace(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256];
	size_t room = 0;
	unsigned number = 0;

	if (!file)
		refuse("--trace: cannot read %s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		unsigned long long id, time_us, bytes;
		char service[NAME_BYTES], client[NAME_BYTES], server[NAME_BYTES];

		number++;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%llu %llu %31s %31s %31s %llu", &id, &time_us, service, client, server, &bytes) != 6)
			refuse("%s:%u: a line is id, time_us, service, client, server, bytes", path, number);
		if (host_index(client) != me)
			continue;
		unsigned s = 0;

		while (s < service_count && strcmp(services[s].name, service))
			s++;
		if (s == service_count)
			refuse("%s:%u: service '%s' has no --service", path, number, service);
		if (host_index(server) == MAX_HOSTS)
			refuse("%s:%u: host '%s' has no --host", path, number, server);
		if (bytes < sizeof(struct message) || bytes > MESSAGE_MAX_BYTES)
			refuse("%s:%u: %llu bytes; a flow has 32 to %u", path, number, bytes, MESSAGE_MAX_BYTES);
		if (flow_count == room) {
			room = room ? 2 * room : 1024;
			flows = realloc(flows, room * sizeof(*flows));
			if (!flows)
				refuse("no memory for the trace");
		}
		flows[flow_count] = (struct flow){
			.id = id, .bytes = bytes, .due_ns = time_us * 1000, .host = host_index(server), .service = s};
		if (flow_count && flows[flow_count].due_ns < flows[flow_count - 1].due_ns)
			refuse("%s:%u: lines must stand in order of time_us", path, number);
		flow_count++;
	}
	fclose(file);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* Waits until every flow is logged or the clock says deadline_ns; what is unfinished then is logged as that. */
static size_t finish(uint64_t deadline_ns)
{
	struct timespec deadline = timespec_of(deadline_ns);
	size_t unfinished = 0;

	pthread_mutex_lock(&lock);
	while (completed < flow_count && pthread_cond_clockwait(&finished, &lock, CLOCK_MONOTONIC, &deadline) == 0)
		;
	for (size_t i = 0; i < flow_count; i++) {
		if (!flows[i].done) {
			log_flow(&flows[i], 0, 0, 0, "unfinished");
			unfinished++;
		}
	}
	fflush(log_file);
	return unfinished; /* the lock stays held: no worker writes any more */
}

/* As a program that ends in good order does; the servers see the end of the stream. */
static void close_kept(void)
{
	for (unsigned h = 0; h < host_count; h++)
		for (unsigned s = 0; s < service_count; s++)
			for (struct kept *kept = pool[h][s]; kept; kept = kept->next)
				close(kept->fd);
}

int drive_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"me", required_argument, NULL, 'm'},      {"host", required_argument, NULL, 'h'},
		{"service", required_argument, NULL, 's'}, {"trace", required_argument, NULL, 't'},
		{"log", required_argument, NULL, 'l'},     {"start-ns", required_argument, NULL, 'n'},
		{"deadline-s", required_argument, NULL, 'd'}, {"words", required_argument, NULL, 'o'},
		{"marks", required_argument, NULL, 'k'}, {NULL, 0, NULL, 0}};
	const char *name = NULL, *trace = NULL, *log = NULL;
	uint64_t start_ns = 0, deadline_s = 60;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'm':
			name = optarg;
			break;
		case 'h':
			add_host(optarg);
			break;
		case 's':
			add_service(optarg);
			break;
		case 't':
			trace = optarg;
			break;
		case 'l':
			log = optarg;
			break;
		case 'n':
			start_ns = number_of("--start-ns", optarg, 0, UINT64_MAX);
			break;
		case 'd':
			deadline_s = number_of("--deadline-s", optarg, 0, 86400);
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
	if (!name || !trace || !log)
		refuse("--me, --trace and --log are needed");
	me = host_index(name);
	if (me == MAX_HOSTS)
		refuse("--me: '%s' is none of the --host", name);
	read_trace(trace);
	script_read_trace(trace);
	log_file = fopen(log, "w");
	if (!log_file)
		refuse("--log: cannot write %s: %s", log, strerror(errno));
	if (!start_ns)
		start_ns = now_ns();
	uint64_t last_ns = start_ns;

	for (size_t i = 0; i < flow_count; i++) {
		last_ns = flows[i].due_ns += start_ns;
		struct timespec due = timespec_of(last_ns);

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			;
		start_flow();
	}
	size_t unfinished = finish(last_ns + deadline_s * 1000000000u);

	close_kept();
	return unfinished ? 3 : 0;
}
