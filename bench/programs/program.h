/* What the benchmarks' programs share: an end with a word, and their own CPU time. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static inline double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#endif
