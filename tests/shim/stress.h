/* What the files of the program `stress` share: checked streams, and the scenarios. */
#ifndef STRESS_H
#define STRESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : fail(__FILE__, #what, __LINE__))
#define FILE_BYTES (1 << 18)

extern _Atomic uint64_t bytes_checked, connections;
extern double end_s;
extern bool may_interrupt; /* a call may say EINTR */
extern int file_fd; /* holds the first FILE_BYTES of any stream */

/* --- stress_stream.c */
void fail(const char *file, const char *what, int line);
double now_s(void);
void fill(uint8_t *bytes, size_t len, uint64_t position); /* of a stream */
int listen_on(struct sockaddr_in6 *address);
void pair(unsigned int *seed, int *a, int *b);
size_t write_somehow(int fd, uint64_t position, size_t len, unsigned int *seed, int flags);

struct side {
	int fd;
	uint64_t total;
	unsigned int seed;
};
void *reader(void *side); /* checks each byte, answers now and then, closes at the end */
void check_stream(int fd, uint64_t total, unsigned int *seed);
void one_stream(unsigned int *seed);
void *streams(void *seed); /* until the end */
void run_threads(int count, void *(*body)(void *), unsigned int seed);

/* --- scenarios */
void streams_scenario(unsigned int seed);
void duplex_scenario(unsigned int seed);
void churn_scenario(unsigned int seed);
void fork_scenario(unsigned int seed);
void shared_scenario(unsigned int seed);
void both_write_scenario(unsigned int seed);
void close_all_scenario(unsigned int seed);
void reset_scenario(unsigned int seed);
void signals_scenario(unsigned int seed);
void signals_restart_scenario(unsigned int seed);
void storm_scenario(unsigned int seed);
void storm_restart_scenario(unsigned int seed);
void handler_writes_scenario(unsigned int seed);
void jump_scenario(unsigned int seed);
void cancel_scenario(unsigned int seed);
void fork_threads_scenario(unsigned int seed);
void exec_scenario(unsigned int seed);
/* What exec_scenario() executes. */
int go_on(int fd, uint64_t position, uint64_t total);

#endif
