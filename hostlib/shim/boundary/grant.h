/*
 * How far a writing call may go now: what a look finds (look.h) and what a wait ends with, carried out by the table of
 * step.h. The gate is ours.
 */
#ifndef QCLIMB_GRANT_H
#define QCLIMB_GRANT_H

#include "boundary/look.h"

/*
 * How many of `left` bytes may be written now; 0 and errno: none, and whether it `is_first` of its call decides whether
 * that fails or is short.
 */
size_t grant(struct connection *connection, const struct write_call *call, size_t left, bool is_first, enum known known,
	     uint64_t now);

#endif
