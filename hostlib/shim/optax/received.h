/*
 * What OPTAX knows of a socket's receiving side: one `struct received` beside each struct connection, of the same slot,
 * in memory that is there only where OPTAX is on. Invariant: type-stable like struct connection.
 */
#ifndef QCLIMB_RECEIVED_H
#define QCLIMB_RECEIVED_H

#include "socket/connection.h"

#include <sys/epoll.h>

enum received_kind {
	KIND_KERNELS, /* as without us; also a socket whose reads pass us by */
	KIND_FREE, /* a flow so short that it is never withheld */
	KIND_SMALL, /* in line */
	KIND_LARGE,
};

enum received_where {
	WHERE_NOT_ASKED,
	WHERE_LINK,
	WHERE_HOST, /* left alone, and nothing of it is counted */
};

enum received_window {
	WINDOW_KERNELS,
	WINDOW_FIRST, /* the smallest, but the kernel tunes it with the first read that we don't see */
	WINDOW_FREE, /* ten segments, and as above */
	WINDOW_LEAST, /* the smallest, until we say otherwise */
	WINDOW_CLOSING, /* the smallest as soon as all has come that was offered before */
	WINDOW_HEADS,
	WINDOW_LARGE, /* the kernel's buffer, but a bound to the window */
};

#define LOOP_NONE 0
#define LOOP_SEVERAL (-1) /* in more than one event loop: never withheld from a caller that does not wait */

struct received {
	/* The flow. */
	_Atomic uint64_t got_bytes;
	_Atomic uint64_t read_ns;
	_Atomic uint64_t last_bytes; /* of the flow before it; 0: there was none */
	uint64_t written_ns; /* of the connection, when it was last looked at: later means a turn */
	_Atomic uint32_t kind; /* enum received_kind */
	_Atomic uint32_t place; /* among withheld.c's small flows, + 1; 0: none */
	_Atomic uint32_t where; /* enum received_where */
	_Atomic uint32_t counted; /* rates_count_large()'s */

	/* The window. */
	uint32_t window; /* enum received_window */
	uint32_t segments; /* of WINDOW_HEADS, WINDOW_LARGE, WINDOW_CLOSING */
	uint64_t set_ns; /* WINDOW_LARGE */
	uint64_t offered; /* WINDOW_CLOSING: bytes that may still come from before */
	int old_rcvbuf; /* as getsockopt gave it */

	/* Who waits for it (withheld.c). */
	atomic_bool is_polled; /* by poll or select, through us */
	atomic_bool is_busy; /* a thread changes what follows: tried, seldom waited for */
	atomic_bool is_masked; /* its event loop does not hear of what can be read */
	_Atomic int loop; /* epoll descriptor + 1, or as above */
	int loop_fd; /* under which it is registered there */
	struct epoll_event event; /* as the application wants it */
};

#define SEGMENT_BYTES 1448u

#define RECEIVED_CHUNK 256u
#define RECEIVED_CHUNKS 1024u
extern QCLIMB_OURS _Atomic(struct received *) qclimb_received_chunks[RECEIVED_CHUNKS];

/* NULL: this connection has none. */
static inline struct received *received_of(const struct connection *connection)
{
	struct received *chunk;

	if (!connection)
		return NULL;
	chunk = atomic_load_explicit(&qclimb_received_chunks[connection->slot / RECEIVED_CHUNK % RECEIVED_CHUNKS],
				     memory_order_acquire);
	return chunk ? &chunk[connection->slot % RECEIVED_CHUNK] : NULL;
}

/*
 * Whether both ends of the socket are on this host: what they exchange takes nothing of a link. The kernel is asked
 * once a connection; false also where there is no peer.
 */
bool received_is_within_host(struct received *flow, int fd);

/* A new connection: its place, made where there is memory, knows nothing. */
void received_begin(struct connection *connection);
/* The child leaves all sockets that it shares with its parent to the kernel. */
void received_after_fork(void);

#endif
