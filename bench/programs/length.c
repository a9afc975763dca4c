/*
 * Times length.h for bench/length.py, which loads this as a shared library. Nothing here is installed.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <qclimb/length.h>
#include <qclimb/propose.h>

#define HEADS 256
#define HEAD_BYTES 512

double bench_rule_ns(int rounds);
double bench_http_ns(const char *head, int rounds);
double bench_propose_ns(int rounds);
double bench_read_ns(int bytes, int rounds);

static uint8_t heads[HEADS][HEAD_BYTES], copy[QCLIMB_HTTP_HEAD_BYTES], source[QCLIMB_HTTP_HEAD_BYTES];
static volatile uint64_t sink;

/* Of this thread alone: a busy machine does not count. */
static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* A message of a parameter server, of another length each time, and the walk on. */
double bench_rule_ns(int rounds)
{
	static const struct qclimb_length_rule fixed = { .offset = 12, .width = 4, .constant_bytes = 16 };
	struct qclimb_length_rule rule;
	double start;

	memcpy(&rule, &fixed, sizeof(rule));
	__asm__ volatile("" : : "r"(&rule) : "memory"); /* learned: the compiler does not know it */
	for (uint32_t i = 0; i < HEADS; i++) {
		memset(heads[i], 0, QCLIMB_LENGTH_HEAD_BYTES);
		heads[i][12] = (uint8_t)(i | 64);
	}
	start = now_ns();
	for (int i = 0; i < rounds; i++) {
		sink = qclimb_length_walk(&rule, heads[i % HEADS], QCLIMB_LENGTH_HEAD_BYTES);
	}
	return (now_ns() - start) / rounds;
}

double bench_http_ns(const char *head, int rounds)
{
	const uint32_t head_bytes = (uint32_t)strlen(head);
	double start;

	for (uint32_t i = 0; i < HEADS; i++)
		memcpy(heads[i], head, head_bytes < HEAD_BYTES ? head_bytes : HEAD_BYTES);
	start = now_ns();
	for (int i = 0; i < rounds; i++)
		sink = qclimb_http_foretell(heads[i % HEADS], head_bytes, QCLIMB_HTTP_OTHER);
	return (now_ns() - start) / rounds;
}

/* What the process does for a flow that is learned from: the candidates of 64 bytes that look random. */
double bench_propose_ns(int rounds)
{
	struct qclimb_candidate found[QCLIMB_CANDIDATES_MOST];
	double start;

	for (uint32_t i = 0; i < HEADS; i++)
		for (uint32_t at = 0; at < QCLIMB_LENGTH_HEAD_BYTES; at++)
			heads[i][at] = (uint8_t)((i * 64 + at) * UINT32_C(2654435761) >> 24);
	start = now_ns();
	for (int i = 0; i < rounds; i++)
		sink = qclimb_length_candidates(heads[i % HEADS], QCLIMB_LENGTH_HEAD_BYTES, 100000 + (uint64_t)i,
						found);
	return (now_ns() - start) / rounds;
}

/* What it costs to get these bytes from the application so that a bad pointer is an error, not a signal. */
double bench_read_ns(int bytes, int rounds)
{
	const struct iovec to = { copy, (size_t)bytes }, from = { source, (size_t)bytes };
	const pid_t self = getpid();
	const double start = now_ns();

	for (int i = 0; i < rounds; i++)
		if (process_vm_readv(self, &to, 1, &from, 1, 0) != bytes)
			return -1;
	return (now_ns() - start) / rounds;
}
