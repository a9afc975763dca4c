/* A writing call of any kind, cut where a boundary is. */
#ifndef QCLIMB_WRITE_CALL_H
#define QCLIMB_WRITE_CALL_H

#include "base/shim.h"

#include <limits.h>

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
	bool is_plain : 1; /* write or writev: no flags */
	bool is_whole : 1; /* a split would change what the call means: its priority is that of its first byte */
	bool is_started : 1; /* a piece of this call was accepted: a failure of a later one is the next call's */
	bool is_cut : 1; /* signals are held until its last piece is written: no piece waits in the kernel */
	uint8_t shows; /* enum shows: what of it may be looked at */
	union {
		int in_fd; /* sendfile, splice */
		socklen_t to_len; /* sendto */
	};
	union {
		const void *bytes; /* send, sendto, write */
		const struct iovec *parts; /* writev, sendmsg */
		off64_t *offset; /* sendfile */
		struct messages *messages; /* sendmmsg (send.c) */
	};
	union {
		const struct sockaddr *to; /* send, sendto; NULL: none */
		const struct msghdr *message; /* sendmsg; NULL: writev */
		unsigned int splice_flags;
	};
	size_t part_count;
};

/* Where the kernel's check of addresses ends (access_ok); behind it the kernel is asked. */
#ifdef __x86_64__
#define MEMORY_END ((UINT64_C(1) << 47) - 4096)
#else
#define MEMORY_END (SIZE_MAX / 2)
#endif

/*
 * Whether a call may be cut by these bytes. The kernel checks the length and the memory of a call as a whole, which the
 * pieces of a cut call would pass: what it may refuse goes to it untouched.
 */
static inline bool is_splittable(const void *bytes, size_t len)
{
	return len <= MEMORY_END && (uintptr_t)bytes <= MEMORY_END - len && (!len || !is_no_memory(bytes));
}

/* How much of `len` bytes one call of Linux moves (MAX_RW_COUNT): pieces sum to no more. */
static inline size_t limit_to_call(size_t len)
{
	size_t most;

	if (likely(len <= INT_MAX / 2))
		return len;
	most = INT_MAX & ~((size_t)sysconf(_SC_PAGESIZE) - 1);
	return len < most ? len : most;
}

#endif
