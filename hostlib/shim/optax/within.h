/*
 * Whether a socket's two ends are on one host: what they exchange takes nothing of a link. Knows nothing of flows.
 */
#ifndef QCLIMB_WITHIN_H
#define QCLIMB_WITHIN_H

#include "base/shim.h"

/* Two system calls; false also where there is no peer. */
bool is_within_host(int fd);

#endif
