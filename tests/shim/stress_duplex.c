/* Both directions of one connection by threads of their own, and thousands of connections that come and go. */
#include "stress.h"

#include <dirent.h>
#include <poll.h>

/* --- one thread writes, another reads, on either side */

struct half {
	int fd;
	uint64_t total;
	unsigned int seed;
};

static void *write_half(void *argument)
{
	struct half *half = argument;
	uint64_t position = 0;

	while (position < half->total) {
		size_t len = 1 + (size_t)rand_r(&half->seed) % (rand_r(&half->seed) % 2 ? 3000 : 60000);

		if (len > half->total - position)
			len = (size_t)(half->total - position);
		position += write_somehow(half->fd, position, len, &half->seed, 0);
		if (rand_r(&half->seed) % 8 == 0)
			usleep((useconds_t)rand_r(&half->seed) % 1000);
	}
	MUST(!shutdown(half->fd, SHUT_WR));
	return NULL;
}

static void *read_half(void *argument)
{
	struct half *half = argument;

	check_stream(half->fd, half->total, &half->seed);
	return NULL;
}

static void one_duplex(unsigned int *seed)
{
	struct half halves[4];
	pthread_t threads[4];
	int a, b;

	pair(seed, &a, &b);
	for (int i = 0; i < 4; i++)
		halves[i] =
			(struct half){ i & 1 ? b : a, 1 + (uint64_t)rand_r(seed) % 300000, (unsigned int)rand_r(seed) };
	halves[2].total = halves[1].total; /* what b writes, a reads */
	halves[3].total = halves[0].total;
	for (int i = 0; i < 4; i++)
		MUST(!pthread_create(&threads[i], NULL, i < 2 ? write_half : read_half, &halves[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	MUST(!close(a) && !close(b));
}

static void *duplexes(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;

	while (now_s() < end_s)
		one_duplex(&seed);
	return NULL;
}

void duplex_scenario(unsigned int seed)
{
	run_threads(2, duplexes, seed);
}

/* --- connections that come and go: as many as asked for, by eight threads, whatever the time */

#define CHURN_THREADS 8
#define CHURN_WARM 2000 /* connections after which what is taken for good has been taken */
#define CHURN_ALL 10000
#define CHURN_BYTES_MOST 30000 /* fits any socket's buffers: one thread writes, then reads */
#define CHURN_PAGES_MORE 512 /* of 4 KiB */

static _Atomic int churn_left;

static void send_stream(int fd, uint64_t total, unsigned int *seed)
{
	for (uint64_t position = 0; position < total;) {
		size_t len = 1 + (size_t)rand_r(seed) % 12000;

		if (len > total - position)
			len = (size_t)(total - position);
		position += write_somehow(fd, position, len, seed, 0);
	}
	MUST(!shutdown(fd, SHUT_WR));
}

static void *churn(void *argument)
{
	const struct linger hard = { 1, 0 };
	unsigned int seed = *(unsigned int *)argument;
	struct sockaddr_in6 address = { .sin6_family = seed % 2 ? AF_INET6 : AF_INET };
	const int listener = listen_on(&address);

	while (atomic_fetch_sub(&churn_left, 1) > 0) {
		const uint64_t there = 1 + (uint64_t)rand_r(&seed) % CHURN_BYTES_MOST, back = 1 + there % 5000;
		const int a = socket(address.sin6_family, SOCK_STREAM, 0);
		int b;

		MUST(a >= 0 && !connect(a, (struct sockaddr *)&address,
					address.sin6_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(address)));
		b = accept(listener, NULL, NULL);
		MUST(b >= 0);
		atomic_fetch_add(&connections, 1);
		send_stream(a, there, &seed);
		check_stream(b, there, &seed);
		send_stream(b, back, &seed);
		check_stream(a, back, &seed);
		MUST(!setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard))); /* no port waits for its time */
		MUST(!close(b) && !close(a));
	}
	MUST(!close(listener));
	return NULL;
}

static int open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	MUST(folder);
	while (readdir(folder))
		count++;
	MUST(!closedir(folder));
	return count;
}

static long resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	MUST(file && fscanf(file, "%*d %ld", &pages) == 1 && !fclose(file));
	return pages;
}

void churn_scenario(unsigned int seed)
{
	int descriptors;
	long pages;

	atomic_store(&churn_left, CHURN_WARM);
	run_threads(CHURN_THREADS, churn, seed);
	descriptors = open_descriptors();
	pages = resident_pages();
	atomic_store(&churn_left, CHURN_ALL);
	run_threads(CHURN_THREADS, churn, seed + 1);
	MUST(open_descriptors() == descriptors);
	fprintf(stdout, "%ld more pages; ", resident_pages() - pages);
	MUST(resident_pages() - pages < CHURN_PAGES_MORE);
}
