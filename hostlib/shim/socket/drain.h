/*
 * What the kernel says of a connection: what is not transmitted, what is not ACKed, whether it may be written, and the
 * wait for that. Borrows nothing.
 */
#ifndef QCLIMB_DRAIN_H
#define QCLIMB_DRAIN_H

#include "socket/connection.h"

struct tcp_info;

enum waited {
	WAITED_DONE,
	WAITED_TIMEOUT, /* the given time passed */
	WAITED_SIGNAL, /* a signal handler ran */
	WAITED_ERROR, /* the connection has an error for the next call to find, or is over */
};

/* Bytes not yet ACKed; negative: not a TCP socket. */
int unacked_bytes(int fd);
/* Bytes not yet transmitted. */
int unsent_bytes(int fd);

/* The kernel's estimates; false: it gives none. */
bool tcp_info_of(int fd, struct tcp_info *info);

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

/* How long after its transmission a segment's ACK is taken for a delayed one. */
uint64_t ack_due_ns(int fd);

/*
 * Until it may be written; timeout_ns: UINT64_MAX is for ever. Where it may not, the kernel's event for room is armed.
 * `signals` are held during the wait (hold_signals); NULL: those that are held now.
 */
enum waited wait_writable(int fd, uint64_t timeout_ns, const uint64_t *signals);
bool is_writable(int fd);

/* The connection is over, and may have an error that the next call on it is told. */
bool has_hung_up(int fd);

/* Whether a call with these MSG_* flags may be made to wait. */
bool is_blocking(int fd, int flags);

/* Less than a second. False: a signal handler ran. */
bool nap(uint64_t ns);

/*
 * No handler runs from here on, but of faults and of libc's own signals; *before is what was held. False: refused, and
 * nothing changed.
 */
bool hold_signals(uint64_t *before);
/* As they were; handlers of what came meanwhile run now. Keeps errno. */
void release_signals(const uint64_t *before);

/* The restart rule of a call that a signal interrupted before it did anything: true if it must return EINTR. */
bool signal_interrupts(int fd);

/* SO_SNDTIMEO, UINT64_MAX if none. */
uint64_t send_timeout_ns(int fd);

#endif
