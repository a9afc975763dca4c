/*
 * What the record of the flow under way will say and nothing else here knows (connection.h): here alone it is noted, but
 * for what history.c remembers.
 */
#ifndef QCLIMB_FACTS_H
#define QCLIMB_FACTS_H

#include "socket/connection.h"

/* A flow begins with a call of `call_bytes`; `assumed`: as struct flow_facts has it. */
static inline void facts_begin(struct connection *connection, size_t call_bytes, uint64_t now, uint32_t mode,
			       uint32_t assumed, uint64_t before_bytes)
{
	struct flow_facts *facts = &connection->facts;

	facts->first_write_bytes = (uint32_t)(call_bytes < UINT32_MAX ? call_bytes : UINT32_MAX);
	relaxed_set(facts->drained_us, 0);
	facts->wait_us = 0;
	facts->promotions = 0;
	facts->demotions = 0;
	facts->before_bytes = (uint16_t)before_bytes;
	facts->mode = mode & 3;
	facts->assumed = assumed & 63;
	facts->flags = 0;
	connection->start_ns = now;
}

/* It did begin where that was assumed. */
static inline void facts_proven(struct connection *connection)
{
	connection->facts.before_bytes = 0;
	connection->facts.assumed = 0;
}

static inline void facts_flag(struct connection *connection, uint8_t flags) /* enum qclimb_record_flag, or-ed */
{
	connection->facts.flags |= flags;
}

static inline void facts_waited(struct connection *connection, uint64_t ns)
{
	connection->facts.wait_us += (uint32_t)(ns / QCLIMB_NS_PER_US + 1);
}

static inline void facts_change(struct connection *connection, uint32_t before, uint32_t priority)
{
	connection->facts.promotions += priority < before;
	connection->facts.demotions += priority > before;
}

/* A reader saw that all is ACKed. */
static inline void facts_drained(struct connection *connection, uint64_t now)
{
	relaxed_set(connection->facts.drained_us, (uint32_t)((now - connection->start_ns) / QCLIMB_NS_PER_US));
}

#endif
