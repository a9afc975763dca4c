/*
 * libc's functions, for an intercepted call: the first of all starts the library.
 */
#ifndef QCLIMB_CALLS_REAL_H
#define QCLIMB_CALLS_REAL_H

#include "base/real.h"
#include "start.h"

static inline const struct real *real(void)
{
	if (unlikely(!atomic_load_explicit(&qclimb_is_started, memory_order_acquire)))
		qclimb_start();
	return &qclimb_real;
}

#endif
