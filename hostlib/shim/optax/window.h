/*
 * The receive window of a socket: the first one, the smallest, the head's, a large flow's and the kernel's own
 * (optax.c says which, when). Knows nothing of tasks.
 *
 * Invariant: what was offered is taken. A sender that fills a window that the kernel advertised finds room: a buffer
 * shrinks only when all that it let in has come. A smaller one earlier would have the kernel throw away what arrives,
 * and the sender wait for a timeout.
 */
#ifndef QCLIMB_WINDOW_H
#define QCLIMB_WINDOW_H

#include "optax/received.h"

/*
 * Before the handshake: ten segments, as much as a sender's first flight, which the kernel goes on tuning; or two. The
 * window scale is an unbounded socket's. False: this kernel can't, or the application bounds its buffer itself.
 */
bool window_begin(struct received *flow, int fd, bool is_free);

/* Two segments; what was offered before may still come. */
void window_least(struct received *flow, int fd);

/* Of the head's flows. */
void window_heads(struct received *flow, int fd, uint32_t segments);

/* Of a large flow, beside a line: the kernel's buffer; again from time to time, for the kernel lifts it. */
void window_large(struct received *flow, int fd, uint32_t segments, uint64_t now);

/* Nobody is held back: as far as it was bounded it no longer is. */
void window_free(struct received *flow, int fd);
void window_kernels(struct received *flow, int fd);

/* Bytes were read. */
void window_read(struct received *flow, uint64_t got);

#endif
