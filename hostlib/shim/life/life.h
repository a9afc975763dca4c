/*
 * Where one flow of a connection ends and the next begins (docs/design/host-library.md), and what is known of it at
 * its start: who talks to whom, what the application told, what the forest foretells. Knows nothing of priorities.
 */
#ifndef QCLIMB_LIFE_H
#define QCLIMB_LIFE_H

#include "socket/connection.h"
#include "rules/rules.h"

#define VERIFY_TICKS (tick_of(50 * QCLIMB_NS_PER_MS)) /* after which a descriptor is looked at again */

/* Learns, once a connection, its addresses and cookie, and later that the descriptor still is this connection. */
bool life_identify(struct connection *connection, int fd, uint64_t now);

/* Whether the flow under way is over for a write that comes now: turned or quiet for long, and everything ACKed. */
bool life_is_over(struct connection *connection, int fd, uint64_t now, bool is_turned);

/* A connect() begins: it may have another peer. */
void life_connects(struct connection *connection);

/* What accept() or connect() said of the peer, so that the kernel need not be asked again. */
void life_met(struct connection *connection, const struct sockaddr *peer, socklen_t len);

void life_start(struct connection *connection, int fd, size_t call_bytes, uint64_t now, const struct rules *rules);

/*
 * A flow that is assumed to begin here (assumed.h): the one before is recorded, decisions go on as if it were the same.
 */
void life_assume(struct connection *connection, int fd, size_t call_bytes, uint64_t now);

/* Ends the flow under way, if there is one, and records it with these flags beside its own. */
void life_finish(struct connection *connection, uint64_t now, uint8_t flags);

/* The application has said where this flow begins, and perhaps its size and deadline. */
void life_is_told(struct connection *connection, uint64_t told, uint64_t now);

/* The flow's first write wrote nothing: the next one begins it, with what was told of it. */
void life_not_begun(struct connection *connection, uint64_t told);

/*
 * Asks the forest, once a flow, and only when the application has asked to send more than the first threshold: up to
 * there the flow would hardly be served later, and a walk through cold memory (11-13 us in bench/forest.py) is not
 * free. The log tells how long it took, by two readings of the clock that nobody pays for without a log.
 */
void life_forecast_if_due(struct connection *connection, int fd, const struct rules *rules);

#endif
