/*
 * What came since the last write on a connection: something was read (a turn of the conversation), or the application
 * told of its next flow. Either way the next write decides. Here alone both are changed.
 */
#ifndef QCLIMB_TURNED_H
#define QCLIMB_TURNED_H

#include "life/told.h"
#include "socket/connection.h"

/* A read turned the conversation; `turn`: as struct connection has it. */
static inline void turn_note(struct connection *connection, uint8_t turn)
{
	relaxed_set(connection->is_turned, turn);
}

/* Whether, and what, was read since the last write; the next asks anew. */
static inline uint8_t turn_take(struct connection *connection)
{
	return atomic_load(&connection->is_turned) ? atomic_exchange(&connection->is_turned, 0) : 0;
}

/* The same by the gate's holder, who knows it already. */
static inline void turn_used(struct connection *connection)
{
	relaxed_set(connection->is_turned, 0);
}

static inline void turn_again(struct connection *connection)
{
	turn_note(connection, TURNED);
}

/* Bytes that were read since the last write, `got` more, as far as 16 bits count. */
static inline size_t read_note(struct connection *connection, size_t got)
{
	size_t bytes = relaxed_get(connection->read_bytes);

	if (got < UINT16_MAX - bytes) {
		bytes += got;
		relaxed_set(connection->read_bytes, (uint16_t)bytes);
	}
	return bytes;
}

static inline void read_used(struct connection *connection)
{
	relaxed_set(connection->read_bytes, 0);
}

/* What was told; it is used up. 0: nothing. */
static inline uint64_t told_take(struct connection *connection)
{
	return relaxed_get(connection->told) ? atomic_exchange(&connection->told, 0) : 0;
}

/* Nothing of it was written: the next write uses it, but for what was told since then. */
static inline void told_keep(struct connection *connection, uint64_t told)
{
	uint64_t nothing = 0;

	(void)atomic_compare_exchange_strong(&connection->told, &nothing, told);
}

/* false: somebody else told something meanwhile, and *before is that. */
static inline bool told_change(struct connection *connection, uint64_t *before, uint64_t told)
{
	if (!atomic_compare_exchange_weak(&connection->told, before, told))
		return false;
	atomic_store(&connection->is_turned, TURNED); /* whatever was quiet */
	return true;
}

#endif
