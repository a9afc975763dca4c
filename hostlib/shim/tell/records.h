/*
 * Finished flows on their way to hostd: a ring that any thread fills, sent sixteen at a time by a datagram that never
 * blocks. What cannot be handed over is counted. Invariant: no caller waits for another; the socket never holds a
 * number that the application could expect, and is opened anew where the application closed it.
 */
#ifndef QCLIMB_RECORDS_H
#define QCLIMB_RECORDS_H

#include "base/shim.h"

#include <qclimb/record.h>

/*
 * Of how many small flows, on which nothing else depends, a record tells that is made now: one each while there are few,
 * QCLIMB_RECORD_MANY beyond, which are more work to tell of than to serve. 0: another one's does.
 */
uint32_t records_flows(uint64_t now);

/*
 * Room for a record of so many flows, to be filled and handed to records_end(); NULL: there is none, and they are counted
 * as dropped.
 */
struct qclimb_record *records_begin(uint32_t flows, uint64_t now);

/* The record is whole. Sends where sixteen wait or the last datagram is 200 ms old. */
void records_end(struct qclimb_record *record, uint64_t generation, uint64_t now);

/* Whether hostd takes what it is sent, as far as is known. */
bool records_are_taken(uint64_t now);

/* Sends a datagram of another kind at once, unless somebody else is sending: false, it is lost. */
bool records_send(const void *bytes, size_t len, uint64_t now);

/* Sends what waits. */
void records_flush(void);

/*
 * Sends what waits if the last datagram was 20 ms ago or more: at a close, which may be a process's last word for long.
 */
void records_flush_if_due(uint64_t now);

void records_after_fork(void);

#endif
