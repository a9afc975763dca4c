/*
 * Bytes that reached a connection past the library (io_uring, stdio, syscall(), another process), by the kernel's own
 * count. Never says so of bytes that came through it: where the two counts can't be compared, nothing is said.
 */
#ifndef QCLIMB_UNSEEN_H
#define QCLIMB_UNSEEN_H

#include "socket/connection.h"

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

/* Bytes of the flow that is over. */
static inline uint64_t unseen_take(struct connection *connection)
{
	const uint64_t bytes = connection->unseen_bytes;

	connection->unseen_bytes = 0;
	return bytes;
}

/* Whatever was written until now is taken for seen: another socket under the old number. */
void unseen_forget(struct connection *connection, int fd);

#endif
