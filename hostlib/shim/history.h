/*
 * What this process remembers of finished flows with the same service: sizes and the end of the last one. A forest's features 1 to 6.
 * A fixed table by (peer address, service port, role); the least recently used of four entries gives way. Without a lock: threads
 * that meet in an entry may mix two flows' sizes, which costs a forecast and nothing else.
 */
#ifndef QCLIMB_HISTORY_H
#define QCLIMB_HISTORY_H

#include "connection.h"

/* Fills gap_us and last_size_bytes of a flow that starts at start_ns. */
void history_recall(const struct connection *connection, struct qclimb_record *record);

/* Takes in a finished flow. */
void history_remember(const struct connection *connection, const struct qclimb_record *record);

#endif
