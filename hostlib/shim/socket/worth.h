/*
 * Whether a climb is worth its drain, by the kernel's estimates of the path (TCP_INFO) and by what the last one took.
 */
#ifndef QCLIMB_WORTH_H
#define QCLIMB_WORTH_H

#include "socket/connection.h"

/* Bytes that the path carries in one round trip without queueing, two segments at the least. */
uint64_t round_trip_bytes(int fd);

/*
 * From so many bytes on a drain saves more time than it costs, for what can still be waited less for is the share of a
 * round trip that is queues: UINT64_MAX where there is none, where it is corked, and for
 * a while after a drain that took long.
 */
uint64_t climb_pays_bytes(struct connection *connection, int fd, uint64_t now);

/*
 * Whether a climb later on, for so many bytes, may pay: false where it won't at the rate that was reached so far,
 * whatever the queues will be. A no holds for some flows more (a look takes 0.7 us).
 */
bool climb_may_pay(struct connection *connection, int fd, uint64_t bytes);

/*
 * A drain begins: the tick from which it counts. And it has ended: whether another is to be made soon, by
 * connection->wait_since_tick.
 */
uint32_t climb_begins(int fd, uint64_t now);
void climb_took(struct connection *connection, int fd, uint64_t now);

#endif
