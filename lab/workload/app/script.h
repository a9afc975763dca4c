/*
 * How single flows are written and what is told of them, where a replay says so: by the flow's id, from two files.
 * Both ends of a conversation read the same files, so that what the messages say stays as it is.
 */
#ifndef TRAFFIC_SCRIPT_H
#define TRAFFIC_SCRIPT_H

#include <stdint.h>

struct script {
	uint32_t first_bytes;     /* asked for in the first write; 0: by the service's habit */
	uint32_t footprint_bytes; /* asked for before the first ACK was seen */
	uint64_t told_bytes;      /* told to libqclimb.so as the flow's size; 0: nothing */
	int dscp;                 /* the application's own, kept to the flow's end; -1: none */
};

/* Reads the columns first_write_bytes and footprint_bytes of a trace, where its lines have them. */
void script_read_trace(const char *path);
/* Reads lines of id, told_bytes (0: nothing), dscp (-1: none). */
void script_read_words(const char *path);
/* What there is of a flow; NULL: nothing. */
const struct script *script_of(uint64_t id);
/* Before the flow's first write: says what is to be told of it. */
void script_tell(const struct script *script, int fd);
/* Until the first of `sent` bytes is ACKed, or as long as an idle path takes for that. */
void script_await_ack(int fd, uint64_t sent);

#endif
