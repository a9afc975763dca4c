/*
 * OPTAX at the receiver (coflow.h has its rules, line.h the tasks of the host): the flows of the task that came first
 * have the window, the others the smallest one, and those are read no faster than Algorithm 3's ACK delay says. Stock
 * kernels can't delay ACKs, but a window that is full stays closed until the application reads: a read is withheld
 * instead.
 *
 * A flow's first FREE_BYTES are never withheld, so that requests and small answers pass as ever. A flow that receives
 * more than small_coflow_bytes is large: its task leaves the line, and its socket is given back to the kernel's own
 * tuning. A kept connection's next flow is expected to be like its last one: large from its start, or short and not
 * withheld.
 * Off unless the policy says otherwise when the process starts, or the environment does on a host that nobody manages;
 * while off nothing here is called. Invariant: no read waits longer than LINE_DELAY_MOST_NS after the one before,
 * whatever the other processes do, and no event is taken from an application that nobody would give back.
 */
#ifndef QCLIMB_OPTAX_H
#define QCLIMB_OPTAX_H

#include "socket/connection.h"

extern QCLIMB_OURS atomic_bool qclimb_optax_on;
static inline bool optax_is_on(void)
{
	return unlikely(atomic_load_explicit(&qclimb_optax_on, memory_order_relaxed));
}

/*
 * After rules_start(). setting: QCLIMB_OPTAX, which tells the link's rate wherever it is on; task: QCLIMB_TASK; NULL:
 * not given.
 */
void optax_start(const char *setting, const char *task);
void optax_after_fork(void);
void optax_end(void);

/* Before connect() and listen(), while the first window can still be chosen; accepted from `listener`. */
void optax_prepare(struct connection *connection, int fd);
void optax_accepted(struct connection *connection, struct connection *listener);

/* Before a read: waits, or is true: a caller that does not wait gets EAGAIN, and an event is sure to come. */
bool optax_withholds(int fd, int flags);
/*
 * After it: `got` of `asked` bytes, as libc returned it. Who asked (FIONREAD) how many bytes it could read did as if it
 * had peeked at so many.
 */
void optax_read(struct connection *connection, int fd, ssize_t got, size_t asked, int flags);

/* The last descriptor is closed. */
void optax_closed(struct connection *connection);

/* The application chooses its own receive buffer: its socket is left alone from here on. */
void optax_release(struct connection *connection, int fd);
/* What SO_RCVBUF would be without us; false: what the kernel says is right. */
bool optax_shows_rcvbuf(const struct connection *connection, int *bytes);

#endif
