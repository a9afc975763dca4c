/*
 * Puts a priority on a socket: DSCP in packets (RFC 2474), SO_PRIORITY on the host's own queues. ECN bits stay the
 * kernel's.
 */
#ifndef QCLIMB_MARK_H
#define QCLIMB_MARK_H

#include "socket/connection.h"

#include <qclimb/policy.h>

/*
 * Sets what differs from the socket's present state; errno kept. False: refused, and nothing changed: this descriptor is
 * no TCP socket (reused behind our back), or a filter of the host's forbids it.
 */
bool mark(struct connection *connection, int fd, const struct qclimb_policy *policy, uint32_t priority);

/*
 * The same of a socket that has nothing to send: its SYNs and ACKs are served first, on any path where the policy pins
 * priorities to spines.
 */
bool mark_rest(struct connection *connection, int fd, const struct qclimb_policy *policy);

/*
 * Of a socket that the tagger marks and the application ends: the last ACKs leave when TIME_WAIT alone is left of it,
 * which the tagger knows no rule of, and have what the socket had. Bytes that wait go as the tagger says, on the host's
 * own queues, too.
 */
void mark_end(struct connection *connection, int fd, const struct qclimb_policy *policy);

/* Gives back what the application would have without us. */
void mark_nothing(struct connection *connection, int fd);

/* The same, and for good: nothing but records from here on. The application has just set a DSCP of its own, and does so again. */
void mark_release(struct connection *connection, int fd, uint8_t own_dscp);

/* The application's own SO_PRIORITY. */
static inline void mark_prefers(struct connection *connection, int so_priority)
{
	connection->own_so_priority = so_priority;
	connection->has_so_priority = true;
}

static inline void mark_listens(struct connection *connection)
{
	if (!connection->is_listener)
		connection->listened_dscp = connection->dscp;
	connection->is_listener = true;
}

/* An accepted socket, whose peer is known: what it has of its listener's. */
void mark_inherit(struct connection *connection, int fd, const struct connection *listener);

/* What the application finds as DSCP in IP_TOS or IPV6_TCLASS. */
uint8_t mark_shown(const struct connection *connection, int level);

#endif
