/*
 * The line of a host's small tasks in memory that its processes share (OPTAX's task monitor), with the rates of what
 * the host receives (rates.h) in it. Lock-free: a place is claimed by one compare-and-swap, and each number has one
 * writer or is added to, but for what is learned of small tasks: of two that end at once one may not count.
 *
 * The memory is a System V segment, a key for each network namespace and user: unlike a mapped file it can't be
 * truncated under an application (SIGBUS), a full disk doesn't matter, and no descriptor is kept that an application
 * might close. Whoever shares it runs as the same user; a segment that belongs to anybody else, or lets others in, is
 * not used.
 *
 * The first in line is the head; where it can't fill the link, the next ones join it. A task that got more than small
 * ones do goes behind those that come soon. A task that nobody hears of for PATIENCE_NS is passed over, and after
 * FORGET_NS its place is free: so a killed process needs no look at its pid, which another pid namespace might not
 * know. Invariant: nothing here waits, except line_wait(), for a given time.
 */
#ifndef QCLIMB_LINE_H
#define QCLIMB_LINE_H

#include "optax/rates.h"

#include <qclimb/coflow.h>

#define LINE_DELAY_MOST_NS (200 * QCLIMB_NS_PER_MS) /* from one read of a flow to the next, Algorithm 3's bound */
#define LINE_PATIENCE_NS (20 * QCLIMB_NS_PER_MS)
#define LINE_LOSES_PLACE_NS (250 * QCLIMB_NS_PER_MS) /* quiet for so long: it arrives anew */
#define LINE_FORGET_NS (1000 * QCLIMB_NS_PER_MS)
#define LINE_TENURE_NS (2000 * QCLIMB_NS_PER_MS) /* a head for so long makes room for the others */
#define LINE_LATER_NS (2000 * QCLIMB_NS_PER_MS) /* a task that got too much: who comes within goes before it */
#define LINE_JOIN_NS (100 * QCLIMB_NS_PER_MS) /* where the link is not full, one more joins the head after */
#define LINE_HURRY_NS (10 * QCLIMB_NS_PER_MS) /* where it is half empty, as many again after */
#define LINE_ALONE_NS (1000 * QCLIMB_NS_PER_MS) /* and half of them are to do after */

struct line_view {
	bool is_free; /* nobody is held back, and windows are the kernel's */
	bool is_behind; /* this process's task is held back; else it is the head, or joins it */
	uint32_t window; /* of the head's flows, segments */
	uint32_t large_window; /* of large flows, segments; 0: the kernel's own */
	uint64_t delay_ns; /* Algorithm 3's, between two reads of a flow of a task that is held back */
};

/*
 * Attaches the memory; false: there is none, and nobody is ever held back. task: QCLIMB_TASK, "" is the process alone.
 */
bool line_open(const char *task, uint64_t capacity);
void line_after_fork(void);
/* The process ends: its task leaves the line. */
void line_end(void);

/*
 * The process receives so many small and large flows more. With a first small one its task joins the line, with the
 * last one it leaves; with a large one it has no place.
 */
void line_count(int small, int large, uint64_t now);

/*
 * Bytes that this process received, and by which flow of its: also says that the task is active. counted: the flow's,
 * as rates_count_large() has it; NULL: of a socket that is left alone, which says nothing of the task.
 */
void line_received(uint64_t bytes, enum line_flow flow, _Atomic uint32_t *counted, uint64_t now);

/*
 * A connection begins. Whether one flow more, beside those that began just now, would be held back by nobody: few stand
 * in line, and the link is not known to be full.
 */
bool line_begins_free(uint64_t now);

/* Whether this process's task stands in line. */
bool line_has_place(void);

/*
 * Where the process stands; who is held back waits for its turn, and is active. Cheap: looked at anew when the line
 * changed or LOOK_NS passed.
 */
struct line_view line_look(uint64_t now);

/* Sleeps until the order that the thread looked at last changes, or the time passes; true: until a signal came. */
bool line_wait(uint64_t timeout_ns);

#endif
