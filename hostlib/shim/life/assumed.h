/*
 * Flows whose beginning is assumed. A write after a turn begins a flow where every earlier byte is ACKed. On a
 * connection that takes turns it always is, and to ask the kernel costs a third of all that a flow costs: so, once
 * ASSUMED_PROOFS turns in a row were proven to begin a flow, the question is asked later, or not at all. What it fails
 * for once (messages in pipelines, streams that mix, both directions at once) is asked for every turn from then on.
 *
 * Invariant: no decision rests on an assumption. An assumed beginning cuts the record, and that is all: the flow's bytes count
 * on from the last proven one, so no boundary comes late, and the socket's DSCP stays, so nothing is overtaken. Within
 * the policy's calm bytes (rules.h) from there every byte is served first, whoever's it is. Before one past them is
 * written the kernel is asked: all that came before this write is ACKed (a flow begins with it), or all that came
 * before the assumed beginning is (it began there), or it's all one flow, and counted as that. Such a flow's first
 * bytes are then told by at most ASSUMED_MOST records of their own, once in the life of a connection.
 *
 * Nothing is assumed where somebody else may write: after a fork, under kTLS, where bytes went past the library.
 */
#ifndef QCLIMB_ASSUMED_H
#define QCLIMB_ASSUMED_H

#include "socket/connection.h"
#include "tell/log.h"
#include "rules/rules.h"
#include "life/facts.h"
#include "socket/written.h"

#define ASSUMED_PROOFS 4
#define ASSUMED_MOST 63

/* Whether a write of `len` bytes that comes now may be taken for the first of a flow. The gate is ours. */
static inline bool assumed_begins(const struct connection *connection, size_t len, uint32_t calm)
{
	const uint64_t sent = flow_bytes(connection);
	const struct qclimb_footprint *flow = &connection->footprint;

	/* Whatever makes a connection no plain one: or-ed, for one test is less than ten. */
	uint32_t odd = connection->lent | relaxed_get(connection->is_foreign) | connection->has_unseen |
		       connection->is_shared | relaxed_get(connection->error_next) | flow->has_hint | flow->has_forest |
		       flow->has_length | flow->deadline_tick;

	if (likely(!connection->is_released))
		odd |= relaxed_get(connection->priority) | (uint32_t)(relaxed_get(connection->dscp) ^ calm_dscp(calm));
	return connection->proofs == ASSUMED_PROOFS && connection->facts.assumed < ASSUMED_MOST &&
	       connection->facts.mode == calm_mode(calm) && connection->is_open && !odd && len <= calm_bytes(calm) &&
	       sent <= calm_bytes(calm) - len && flow->asked_bytes <= sent /* else a rest is to come */ &&
	       !relaxed_get(connection->told);
}

/* A turn was looked at: whether everything was ACKed. */
static inline void assumed_learn(struct connection *connection, bool is_proven)
{
	if (!is_proven && !connection->is_doubted) {
		LOG("a turn without an end");
		connection->is_doubted = true;
	}
	if (connection->is_doubted)
		connection->proofs = 0;
	else if (connection->proofs < ASSUMED_PROOFS)
		connection->proofs++;
}

/* Before a write that begins no flow and may go past the calm bytes: `unacked` ones of the connection are under way. */
static inline void assumed_settle(struct connection *connection, int unacked)
{
	const uint64_t before = connection->facts.before_bytes;
	struct qclimb_footprint *flow = &connection->footprint;

	if (!before || connection->is_doubted)
		return;
	if (unacked < 0 || (uint64_t)unacked > flow_bytes(connection) - before) {
		assumed_learn(connection, false);
		return;
	}
	LOG("began at its assumed beginning, %llu bytes later", (unsigned long long)before);
	flow_begins(connection, before);
	flow->asked_bytes = flow->asked_bytes > before ? flow->asked_bytes - before : 0;
	if (connection->announced_by) {
		flow->foretold.lower_bytes -= before;
		if (flow->foretold.upper_bytes != QCLIMB_UNKNOWN_BYTES)
			flow->foretold.upper_bytes -= before;
	}
	facts_proven(connection);
}

#endif
