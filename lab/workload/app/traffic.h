/* The two programs in one binary, `traffic serve` and `traffic drive`, and what they share. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdnoreturn.h>

int serve_main(int argc, char **argv);
int drive_main(int argc, char **argv);

/* One sentence to stderr, exit 2. */
noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An IPv4 address, or exit 2 with a sentence naming `option`. */
struct in_addr address_of(const char *option, const char *text);
/* A whole number in [lowest, highest], or exit 2 with a sentence naming `option`. */
uint64_t number_of(const char *option, const char *text, uint64_t lowest, uint64_t highest);

/* How a curl query went, by curl's own clock: from the request's start to its last byte. */
struct query {
	int status;         /* HTTP status, or -1: curl did not run or printed nothing */
	uint64_t bytes;     /* of the body */
	uint64_t connect_ns; /* from curl's start until it was about to send the request */
	uint64_t total_ns;  /* from curl's start until the last byte */
};

/* Runs curl once, waits for it. */
struct query query_run(const char *url, const char *local_address);

#endif
