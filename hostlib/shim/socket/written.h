/*
 * How much was written on a connection. `written` only grows, and all else is a position in it: where the flow under
 * way was proven to begin, up to where it may be written without a decision. Here alone they are changed.
 */
#ifndef QCLIMB_WRITTEN_H
#define QCLIMB_WRITTEN_H

#include "socket/connection.h"

/* Bytes of the flow under way, from its last proven beginning on, as libc accepted them. */
static inline uint64_t flow_bytes(const struct connection *connection)
{
	return relaxed_get(connection->written) - relaxed_get(connection->proven_at);
}

static inline void written_at(struct connection *connection, uint64_t now)
{
	relaxed_set(connection->last_write_ns, now);
}

/* `bytes` more were accepted, and other threads may be writing, too. */
static inline void written_among(struct connection *connection, uint64_t bytes)
{
	atomic_fetch_add_explicit(&connection->written, bytes, memory_order_relaxed);
}

/* The gate is ours: nobody else counts, which saves a locked instruction. */
static inline void written_alone(struct connection *connection, uint64_t bytes)
{
	relaxed_set(connection->written, relaxed_get(connection->written) + bytes);
}

/* Bytes that went past the library are none of the flow's. The gate is ours, or the connection ends. */
static inline void written_past(struct connection *connection, uint64_t bytes)
{
	atomic_fetch_add(&connection->written, bytes);
	relaxed_set(connection->proven_at, relaxed_get(connection->proven_at) + bytes);
}

/* The flow begins `bytes` further on than was proven before. The gate is ours. */
static inline void flow_begins(struct connection *connection, uint64_t bytes)
{
	relaxed_set(connection->proven_at, relaxed_get(connection->proven_at) + bytes);
}

/* The flow may be written to its byte `bytes` without a decision. */
static inline void quiet_to(struct connection *connection, uint64_t bytes)
{
	const uint64_t proven_at = relaxed_get(connection->proven_at);

	relaxed_set(connection->quiet_at, bytes < UINT64_MAX - proven_at ? proven_at + bytes : UINT64_MAX);
}

/* The next write decides. */
static inline void quiet_no_more(struct connection *connection)
{
	relaxed_set(connection->quiet_at, 0);
}

static inline bool is_quiet_for(const struct connection *connection, uint64_t bytes)
{
	const uint64_t quiet_at = relaxed_get(connection->quiet_at);

	return bytes <= quiet_at && relaxed_get(connection->written) <= quiet_at - bytes;
}

#endif
