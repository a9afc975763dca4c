/*
 * Bytes that reached a connection past the library (io_uring, stdio, syscall(), another process), by the kernel's own
 * count. Never says so of bytes that came through it: where the two counts can't be compared, nothing is said.
 */
#ifndef QCLIMB_UNSEEN_H
#define QCLIMB_UNSEEN_H

#include "socket/connection.h"

/*
 * sent_bytes counts anew from here, `bytes` further on: what it had counted came through calls of ours, too. The gate is
 * ours.
 */
static inline void count_from(struct connection *connection, uint64_t bytes)
{
	atomic_fetch_add(&connection->seen_before, bytes);
	atomic_fetch_sub(&connection->sent_bytes, bytes);
}

/*
 * Whether a connection that ends is worth a look (0.7 us): four a millisecond are, and each one of a program that was
 * found to go past the library, for it will do so again.
 */
bool unseen_is_due(const struct connection *connection, uint64_t now);

/*
 * Compares the counts; what is new goes to connection->unseen_bytes. `own_writers`: threads in a writing call that are
 * the caller.
 */
void unseen_look(struct connection *connection, int fd, uint32_t own_writers);

/* Whatever was written until now is taken for seen: another socket under the old number. */
void unseen_forget(struct connection *connection, int fd);

#endif
