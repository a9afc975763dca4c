/*
 * What a call does to the flow of its connection: writes are cut where the priority changes and wait there where the
 * caller may be made to; reads turn the conversation; closing ends it. life.h says where flows begin and end,
 * decision.h how far they may be written.
 */
#ifndef QCLIMB_FLOW_H
#define QCLIMB_FLOW_H

#include "connection.h"
#include "rules.h"

/*
 * A writing call, as pieces of it are asked for. One is made for each: a cache line, and what a kind of call has no use
 * for shares its place with what others need.
 */
struct write_call {
	/* Writes bytes [offset, offset + len) of the call as the application would have; libc's result and errno. */
	ssize_t (*piece)(const struct write_call *call, size_t offset, size_t len);
	/*
	 * How much there is to write from here, where `len` may ask for more (sendfile); NULL: `len` is right, or was
	 * made so.
	 */
	size_t (*available)(const struct write_call *call);
	size_t len;
	int fd;
	int flags; /* MSG_* */
	bool is_plain; /* write or writev: no flags */
	bool is_whole; /* a split would change what the call means: its priority is that of its first byte */
	bool is_started; /* a piece of this call was accepted: a failure of a later one is the next call's */
	union {
		int in_fd; /* sendfile, splice */
		socklen_t to_len; /* sendto */
	};
	union {
		const void *bytes; /* send, sendto, write */
		const struct iovec *parts; /* writev, sendmsg */
		off64_t *offset; /* sendfile */
	};
	union {
		const struct sockaddr *to; /* send, sendto; NULL: none */
		const struct msghdr *message; /* sendmsg; NULL: writev */
		unsigned int splice_flags;
	};
	size_t part_count;
};

/* Carries out a writing call: what the application gets back, with libc's errno. */
ssize_t flow_write(struct connection *connection, struct write_call *call);

/* What a read may ask of the kernel: a quick ACK for bulk that paused, and whether a flow that sank is drained. */
void flow_read_more(struct connection *connection, int fd, bool is_pause);

/* `got` bytes were read, `asked` were asked for: a turn. */
static inline void flow_read(struct connection *connection, int fd, size_t got, size_t asked)
{
	size_t read_bytes = relaxed_get(connection->read_bytes);
	bool is_pause;

	if (!relaxed_get(connection->is_turned))
		relaxed_set(connection->is_turned, true);
	if (got < UINT16_MAX - read_bytes) {
		read_bytes += got;
		relaxed_set(connection->read_bytes, (uint16_t)read_bytes);
	}
	is_pause = got < asked && read_bytes > 2 * 1448;
	if (unlikely(is_pause || relaxed_get(connection->priority) != 0))
		flow_read_more(connection, fd, is_pause);
}

/* Before connect() and listen(): the socket rests at priority 0. */
void flow_rest(struct connection *connection, int fd);

/* The descriptor is closed or shut down for writing; FD_GONE, FD_LOST: nothing may be asked of it. */
void flow_closed(struct connection *connection, int fd);

#endif
