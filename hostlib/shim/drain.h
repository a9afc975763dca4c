/*
 * Has everything been transmitted, has everything been ACKed, and how to wait for either.
 * Two ways, after what the caller may do: a blocking writer waits inside its call; a non-blocking one gets EAGAIN from
 * a socket that the kernel itself holds to be full, so that an event surely follows. Invariant: whatever these borrow
 * (TCP_NOTSENT_LOWAT, SO_SNDBUF, TCP_NODELAY, TCP_CORK) is given back before the next byte is written, and where the
 * process closes its last descriptor: another one may have the socket, too.
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

/*
 * Bytes that the kernel took on this connection, whoever wrote them; SYN and FIN may count as one each. False: not
 * known.
 */
bool accepted_bytes(int fd, uint64_t *bytes);

/*
 * Everything ACKed, or the only segment that is not has been on its way for longer than a round trip takes (a delayed
 * ACK).
 */
bool is_drained(struct connection *connection, int fd, uint64_t now);

/* Bytes that the path carries in one round trip without queueing, by the kernel's estimates: what a drain costs. */
uint64_t drain_cost_bytes(struct connection *connection, int fd);

/* For blocking writers. timeout_ns: UINT64_MAX is for ever. */
enum waited wait_transmitted(struct connection *connection, int fd, uint64_t timeout_ns);
enum waited wait_drained(struct connection *connection, int fd, uint64_t timeout_ns);

/* For the others. All is transmitted, if need be by a push now. */
bool is_transmitted(struct connection *connection, int fd);
/*
 * After is_transmitted() said no. True if by now all is; false: nothing may be written, and the kernel will say when.
 */
bool poll_transmitted(struct connection *connection, int fd);

/*
 * What a bare kernel takes whole is not refused at a boundary, before a first write was refused or short: a program
 * that never saw EAGAIN from a nearly empty socket may not have been tested for it (curl 7.88 loses an HTTP/2 request
 * that gets one). 16 KiB is the first size of Linux's send buffer (tcp_wmem, ip-sysctl); kernel 6.18 took 43 KB and
 * more of any size of pieces, on fresh connections whose peer did not answer.
 */
#define DRAIN_ROOM_BYTES 16384
bool has_room(int fd, size_t len);

/*
 * An event for "everything ACKed", which the kernel has none for. A socket with the smallest buffer is writable again
 * when two thirds of it hold no more than about a segment: one segment too early. So, once all is transmitted, the
 * first DRAIN_HELD_BYTES that are to go at the new priority are written and held back unsent (TCP_CORK): with them the
 * last unACKed segment is too much, and alone they are not. In figures, of kernel 6.18: two thirds of the smallest
 * buffer are 3,072 bytes and a segment takes 832 more than it carries, so that 1,409 bytes or more tell of a last
 * segment of a single byte (1,200 did not tell of one of 201); and less than a segment, or they would go at once.
 * drain_hold_begin() before these bytes are written, drain_hold_end() after; then poll_held() until it is not
 * HELD_WAIT.
 */
#define DRAIN_HELD_BYTES 1420
void drain_hold_begin(struct connection *connection, int fd);
void drain_hold_end(struct connection *connection, int fd);

enum held {
	HELD_WAIT, /* EAGAIN: an event comes */
	HELD_DRAINED, /* all but the bytes held back is ACKed: change the priority, then drain_release() sends them */
	/*
	 * the kernel says writable, yet something is unACKed (a loss probe sent the held bytes): no event is sure to
	 * come
	 */
	HELD_FAILED,
};
enum held poll_held(int fd);

/* Gives back what these borrowed; bytes held back are sent. */
void drain_release(struct connection *connection, int fd);

/* Whether a call with these MSG_* flags may be made to wait. */
bool is_blocking(int fd, int flags);

/* Whether it may be written, as poll says; where not, the kernel's event for room is armed. */
bool is_writable(int fd);

/* Less than a second. False: a signal handler ran. */
bool nap(uint64_t ns);

/* The restart rule of a call that a signal interrupted before it did anything: true if it must return EINTR. */
bool signal_interrupts(int fd);

/* SO_SNDTIMEO, UINT64_MAX if none. */
uint64_t send_timeout_ns(int fd);

#endif
