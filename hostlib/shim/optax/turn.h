/*
 * Whether it is a received flow's turn to be read: the one decision that reads (optax.c) and the calls that wait for
 * them (withheld.c) must agree on. Knows the flow and the line; does nothing to either but tell the line that the task
 * waits.
 */
#ifndef QCLIMB_TURN_H
#define QCLIMB_TURN_H

#include "optax/received.h"

#define DELAY_MOST_NS (200 * QCLIMB_NS_PER_MS) /* from one read of a flow to the next, Algorithm 3's bound */

/* Whether reads of this connection wait now, and until when unless the line moves before. */
bool turn_is_later(const struct connection *connection, uint64_t now, uint64_t *due_ns);

#endif
