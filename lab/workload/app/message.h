/*
 * What the lab's applications say to each other over TCP, and how a body is made and checked.
 * Every message begins with a 32-byte header in host byte order (both ends are one machine);
 * `bytes` counts the whole message, header included, so it is the size of the flow.
 * A body is the pattern from an offset that depends on the flow's id: bytes of another flow,
 * or of another place of the same flow, do not pass the check.
 */
#ifndef TRAFFIC_MESSAGE_H
#define TRAFFIC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAGIC 0x7472616cu

enum message_kind {
	MESSAGE_PULL = 1, /* client to server, header only: send me `bytes` */
	MESSAGE_DATA = 2, /* the flow itself; stamp_ns = just before its first write */
	MESSAGE_DONE = 3, /* answer to pushed data, header only; stamp_ns = after its last byte was read */
};

struct message {
	uint32_t announced_bytes; /* of DATA: what its sender says of its size, 0: nothing. First: in any first write */
	uint32_t kind;
	uint32_t magic;
	uint32_t bytes; /* of the whole message; in a PULL: of the answer */
	uint64_t id;
	uint64_t stamp_ns; /* CLOCK_MONOTONIC, one clock in all network namespaces */
};

_Static_assert(sizeof(struct message) == 32, "the header is 32 bytes, the smallest flow");

/* How an application hands a message to the kernel. */
enum writing { WRITE_ONE, WRITE_TWO, WRITE_CHUNKS };

struct habit {
	enum writing writing; /* one write; header, then body; or chunks */
	size_t chunk_bytes;   /* of WRITE_CHUNKS */
	unsigned think_us;    /* pause before each further chunk, as if read from a disk */
};

#define MESSAGE_MAX_BYTES (64u << 20)

uint64_t now_ns(void);
/* "one", "two", "chunks:BYTES" or "chunks:BYTES:THINK_US"; 0 or -1. */
int habit_parse(struct habit *habit, const char *text);
/* Sends a DATA message of `bytes` (>= 32); fills *start_ns before the first write. 0 or -errno. */
int message_send_data(int fd, const struct habit *habit, uint64_t id, uint64_t bytes, uint64_t *start_ns);
/* Sends a message that is only a header. 0 or -errno. */
int message_send_header(int fd, uint32_t kind, uint64_t id, uint64_t bytes, uint64_t stamp_ns);
/* Reads one header. 0, -EPIPE at the end of the stream, -EBADMSG for what is no header of ours, else -errno. */
int message_receive_header(int fd, struct message *message);
/* Reads and checks the rest of a DATA message, fills *end_ns after its last byte. 0, -EBADMSG or -errno. */
int message_receive_body(int fd, const struct message *message, uint64_t *end_ns);

#endif
