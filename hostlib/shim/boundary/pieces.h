/*
 * Carries out a call whose flow is decided, cut where its priority changes. Invariant: where a bare kernel takes the
 * call in one step, neither a signal handler nor another thread writes between two pieces.
 */
#ifndef QCLIMB_PIECES_H
#define QCLIMB_PIECES_H

#include "boundary/look.h"

/* What the application gets back, with libc's errno. The gate is ours. */
ssize_t write_pieces(struct connection *connection, struct write_call *call, enum known known, uint64_t now);

/* What the kernel has told a piece of ours, for whoever asks first; 0: nothing. */
static inline int flow_take_error(struct connection *connection)
{
	return atomic_exchange(&connection->error_next, 0);
}

#endif
