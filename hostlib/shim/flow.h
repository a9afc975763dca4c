/*
 * What a call does to the flow of its connection: writes are cut where the priority changes and wait there where the
 * caller may be made to; reads turn the conversation; closing ends it. life.h says where flows begin and end,
 * decision.h how far they may be written.
 */
#ifndef QCLIMB_FLOW_H
#define QCLIMB_FLOW_H

#include "connection.h"
#include "rules.h"

/* A writing call, as pieces of it are asked for. */
struct write_call {
	/* Writes bytes [offset, offset + len) of the call as the application would have; libc's result and errno. */
	ssize_t (*piece)(const struct write_call *call, size_t offset, size_t len);
	int fd;
	int flags; /* MSG_* */
	bool is_plain; /* write or writev: no flags */
	bool is_whole; /* a split would change what the call means: its priority is that of its first byte */
	size_t len;
	const void *bytes; /* send, sendto, write */
	const struct sockaddr *to; /* sendto */
	socklen_t to_len;
	const struct msghdr *message; /* sendmsg */
	const struct iovec *parts; /* writev, sendmsg */
	size_t part_count;
	int in_fd; /* sendfile, splice */
	off64_t *offset; /* sendfile */
	unsigned int splice_flags;
	/*
	 * How much there is to write from here, where `len` may ask for more (sendfile); NULL: `len` is right, or was
	 * made so.
	 */
	size_t (*available)(const struct write_call *call);
	bool is_started; /* a piece of this call was accepted: a failure of a later one is the next call's */
};

/* Carries out a writing call: what the application gets back, with libc's errno. */
ssize_t flow_write(struct connection *connection, struct write_call *call);

/* `got` bytes were read, `asked` were asked for. */
void flow_read(struct connection *connection, int fd, size_t got, size_t asked);

/* Before connect() and listen(): the socket rests at priority 0. */
void flow_rest(struct connection *connection, int fd);

/* The descriptor is closed or shut down for writing; FD_GONE, FD_LOST: nothing may be asked of it. */
void flow_closed(struct connection *connection, int fd);

#endif
