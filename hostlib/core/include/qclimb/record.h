/*
 * What a shim tells hostd about finished flows: datagrams to /run/qclimb/records, a header and `count` records each.
 * Plain data, laid out in layout.h. Invariant: no padding, so that no stack byte leaves the process.
 */
#ifndef QCLIMB_RECORD_H
#define QCLIMB_RECORD_H

#include "layout.h"

#define QCLIMB_LAST_SIZES ((int)(sizeof(((struct qclimb_record *)0)->last_size_bytes) / sizeof(uint64_t)))

#endif
