/*
 * What a boundary borrows of a socket, so that the kernel tells when to go on, and how it is given back: it alone
 * writes `lent`. Invariant: an application never finds what is lent: asked for, it is told its own value (option.c);
 * set, closed, or at an exec it is given back before.
 */
#ifndef QCLIMB_LOANS_H
#define QCLIMB_LOANS_H

#include "socket/connection.h"

enum {
	LENT_LOWAT = 1, /* TCP_NOTSENT_LOWAT: writable while less than half of it is not transmitted */
	LENT_SNDBUF = 2, /* SO_SNDBUF is the smallest: writable when about one segment is not ACKed */
	LENT_CORK = 4, /* TCP_CORK */
};

/*
 * Bytes held back by TCP_CORK, for an event "everything ACKed", which the kernel has none for. With them the last
 * unACKed segment is too much for the smallest buffer, and alone they are not. In figures, of kernel 6.18: a socket is
 * writable when two thirds of its buffer are free, of the smallest 3,072 bytes, and a segment takes 832 more than it
 * carries, so that 1,409 bytes or more tell of a last segment of a single byte (1,200 did not tell of one of 201); and
 * less than a segment, or they would go at once.
 */
#define HELD_BYTES 1420

/* What the application may set and a wait borrows. */
bool loans_may_concern(int level, int option);
/* It has set it. */
void loans_note(struct connection *connection, int level, int option, int number);
/* What it finds there: false: what the kernel says. `may_wait`: another thread is in a write. */
bool loans_show(const struct connection *connection, int level, int option, bool may_wait, int *number);
/* As the listener that it was accepted from. */
void loans_inherit(struct connection *connection, const struct connection *listener);

/* A last segment that is not full waits for ACKs (Nagle): sends it, for the wait is for it, too. */
void push(struct connection *connection, int fd);

void lend_lowat(struct connection *connection, int fd, int bytes);
void lend_sndbuf(struct connection *connection, int fd);
void lend_cork(struct connection *connection, int fd);

/* Gives back all that is lent; bytes held back are sent. Keeps errno. */
void loans_give(struct connection *connection, int fd);

/*
 * The same before an exec, where another thread may be in its wait: it is not told, and lends no more; until
 * loans_exec_failed().
 */
void loans_give_for_exec(struct connection *connection, int fd);
void loans_exec_failed(void);

/*
 * Whether a bare kernel would take `len` bytes more at once, by its own count of its memory (SO_MEMINFO). `may_overrun`:
 * it begins its last packet of up to 64 KiB where any memory is left.
 */
bool has_room(const struct connection *connection, int fd, size_t len, bool may_overrun);
/* How many bytes it would. */
size_t room_bytes(const struct connection *connection, int fd);

/* Whether the application chose the send buffer's size: then it may rely on it. */
bool has_own_buffer(const struct connection *connection, int fd);

#endif
