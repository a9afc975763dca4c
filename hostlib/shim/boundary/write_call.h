/* A writing call of any kind, cut where a boundary is. */
#ifndef QCLIMB_WRITE_CALL_H
#define QCLIMB_WRITE_CALL_H

#include "base/shim.h"

enum shows { SHOWS_NOTHING, SHOWS_BYTES, SHOWS_PARTS };

/*
 * Pieces of it are asked for. One is made for each: a cache line, and what a kind of call has no use
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
	uint8_t shows; /* enum shows: what of it may be looked at */
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

#endif
