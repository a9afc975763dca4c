/*
 * A host whose packets the tagger marks (docs/design/tagger.md): a flow's rule is left at its socket, and the DSCP
 * with it. No split, no wait. Where there is no tagger, this process may not reach it, or a connection's packets don't
 * pass it, the library marks as it always does.
 * Invariant: a connection that is left to the tagger has the DSCP of no priority on its socket until the application
 * ends it: without a tagger it is served as any other traffic.
 */
#ifndef QCLIMB_SHIM_TAGGER_H
#define QCLIMB_SHIM_TAGGER_H

#include "socket/connection.h"

/* Looks whether there is a tagger, or another one than before; now and then. */
void tagger_look(void);

/* Leaves the flow's rule at the socket. True: the tagger marks this connection. */
bool tagger_takes(struct connection *connection, int fd, const struct qclimb_flow_rule *rule);

/* Takes the rule back, for the rest of the connection: its packets go as the socket says. */
void tagger_forget(struct connection *connection, int fd);

#endif
