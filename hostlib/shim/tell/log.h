/*
 * QCLIMB_LOG: a line for each decision, to stderr or appended to a file. Silent without it, but for what the user asked of
 * the library and does not get.
 */
#ifndef QCLIMB_LOG_H
#define QCLIMB_LOG_H

#include "base/shim.h"

extern QCLIMB_OURS int qclimb_log_fd; /* -1: silent */

void log_start(const char *where);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of the log; without one, on stderr where that takes it at once. At the start alone: later 2 may be any file. */
#define SAY(...) log_line(__VA_ARGS__)

/* errno is kept. Arguments are not evaluated when silent. */
#define LOG(...)                                                                                                       \
	do {                                                                                                           \
		if (unlikely(qclimb_log_fd >= 0))                                                                      \
			log_line(__VA_ARGS__);                                                                         \
	} while (0)

#endif
