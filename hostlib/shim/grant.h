/*
 * How far a writing call may go now, and the wait for it: decision.h says what must be waited for, drain.h how; here is
 * what the caller may be made to do. The gate is ours.
 */
#ifndef QCLIMB_GRANT_H
#define QCLIMB_GRANT_H

#include "decision.h"
#include "flow.h"

/*
 * How many of `left` bytes may be written now; 0 and errno: none, and whether it `is_first` of its call decides whether
 * that fails or is short. *hold: these bytes are to be held back (drain.h).
 */
size_t grant(struct connection *connection, const struct write_call *call, size_t left, bool is_first, enum ready ready,
	     uint64_t now, bool *hold);

#endif
