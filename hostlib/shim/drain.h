/*
 * Has everything been transmitted, has everything been ACKed, and how to wait for either.
 * Two ways, after what the caller may do: a blocking writer waits inside its call; a non-blocking one gets EAGAIN from a socket that
 * the kernel itself holds to be full, so that an event surely follows. Invariant: whatever these borrow (TCP_NOTSENT_LOWAT, SO_SNDBUF,
 * TCP_NODELAY) is given back before the next byte is written.
 */
#ifndef QCLIMB_DRAIN_H
#define QCLIMB_DRAIN_H

#include "connection.h"

enum waited {
	WAITED_DONE,
	WAITED_TIMEOUT, /* the given time passed */
	WAITED_SIGNAL, /* a signal handler ran */
	WAITED_ERROR, /* the connection has an error for the next call to find */
};

/* Bytes not yet ACKed; negative: not a TCP socket. */
int unacked_bytes(int fd);
/* Bytes not yet transmitted. */
int unsent_bytes(int fd);

/* Everything ACKed, or the only segment that is not has been on its way for longer than a round trip takes (a delayed ACK). */
bool is_drained(struct connection *connection, int fd, uint64_t now);

/* Bytes that the path carries in one round trip without queueing, by the kernel's estimates: what a drain costs. */
uint64_t drain_cost_bytes(struct connection *connection, int fd);

/* For blocking writers. timeout_ns: UINT64_MAX is for ever. */
enum waited wait_transmitted(struct connection *connection, int fd, uint64_t timeout_ns);
enum waited wait_drained(struct connection *connection, int fd, uint64_t timeout_ns);

/* For the others: true if the change may be made now; false: nothing may be written, and the kernel will say when. */
bool poll_transmitted(struct connection *connection, int fd);
/* As above, but also true where no event is sure to come; `is_drained` then says whether the change may be made. */
bool poll_drained(struct connection *connection, int fd, uint64_t now, bool *may_change);

/* Gives back what poll_*() borrowed. */
void drain_release(struct connection *connection, int fd);

/* The restart rule of a call that a signal interrupted before it did anything: true if it must return EINTR. */
bool signal_interrupts(int fd);

/* SO_SNDTIMEO, UINT64_MAX if none. */
uint64_t send_timeout_ns(int fd);

#endif
