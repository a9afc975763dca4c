/*
 * What hostd learns from: the first bytes of a few flows, kept in this process until their sizes are known, and then only
 * which numbers among them would have foretold these (qclimb/propose.h). Taken of flows that their first write does not
 * tell, and not more often than SAMPLE_NS. Invariant: no byte of a message leaves the process.
 */
#ifndef QCLIMB_SAMPLES_H
#define QCLIMB_SAMPLES_H

#include "socket/connection.h"

/* A sample of the flow that begins; the gate is ours. on_trial_bytes: what a rule on trial says of it; 0: nothing. */
void samples_take(struct connection *connection, const uint8_t *head, uint32_t head_bytes, uint64_t on_trial_bytes,
		  uint64_t now);

/* The flow ends by a pause: perhaps amid its message, so that it proves no rule wrong. */
void samples_paused(const struct connection *connection);

/*
 * The flow is over, of size_bytes. What the rule on trial had said; 0: there was none, or the flow may have been cut.
 * Without one, and if the flow was larger than its first write, hostd is told of the candidates.
 */
uint64_t samples_end(struct connection *connection, uint64_t size_bytes, bool is_whole, uint64_t now);

void samples_after_fork(void);

#endif
