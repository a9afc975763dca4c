/*
 * When a receiver had how much of a message: a line a message, its id and the microseconds since the sender's first
 * write at which each further MARKS-th of it had been read. Silent unless a file is named.
 */
#ifndef TRAFFIC_MARKS_H
#define TRAFFIC_MARKS_H

#include <stdint.h>

#include "message.h"

enum { MARKS = 64 };

struct marks {
	uint32_t at_us[MARKS];
	unsigned passed; /* of MARKS */
};

/* Names the file; before any thread runs. */
void marks_to(const char *path);
/* `have` bytes of the message were read by now. */
void marks_note(struct marks *marks, const struct message *message, uint64_t have);
/* The message is whole: its line. */
void marks_write(const struct marks *marks, const struct message *message);

#endif
