/*
 * OPTAX's rules at a receiving host (TAAS; Algorithms 1 to 3): which task's flows have the window, how large it is, and
 * how long the others' ACKs are held back. Plain values and pure functions; knows nothing of sockets, shared memory or
 * clocks.
 *
 * A *task* is the flows of one job that finish together: here those that one process (or processes of one QCLIMB_TASK)
 * receive. It is small while each of its flows is. Small tasks stand in a line by arrival; the first one is the *head*.
 * Serving them one after another, each task ends no later than it would with all served at once, but for the last, and
 * most end much sooner.
 *
 * The papers leave out W_min, Delay_max, the interval of measurement and when a task that stalls is passed over: the
 * callers' choice.
 * Invariant: every result is finite and within the bounds that it was given, whatever the numbers.
 */
#ifndef QCLIMB_COFLOW_H
#define QCLIMB_COFLOW_H

#include <stdint.h>

#define QCLIMB_TASKS 64 /* in a line; more are not held back */
#define QCLIMB_NOT_IN_LINE UINT32_MAX

/* The link is congested from alpha of its capacity on: 0.9. */
#define QCLIMB_ALPHA_PARTS 9
#define QCLIMB_ALPHA_WHOLE 10

struct qclimb_task {
	uint64_t id; /* 0: none */
	uint64_t arrived_ns;
	uint64_t active_ns; /* last time that it received, or waited for its turn */
};

/* Algorithm 1: a task is small while the largest footprint among its flows is. */
static inline int qclimb_task_is_small(uint64_t largest_flow_bytes, uint64_t small_coflow_bytes)
{
	return largest_flow_bytes <= small_coflow_bytes;
}

/* Whether somebody waits for it: a task that was quiet for longer than patience_ns is passed over. */
static inline int qclimb_task_is_active(const struct qclimb_task *task, uint64_t now_ns, uint64_t patience_ns)
{
	return task->id && (task->active_ns >= now_ns || now_ns - task->active_ns <= patience_ns);
}

/* By arrival, and by id among those that came at once. */
static inline int qclimb_task_is_before(const struct qclimb_task *task, const struct qclimb_task *other)
{
	return task->arrived_ns < other->arrived_ns || (task->arrived_ns == other->arrived_ns && task->id < other->id);
}

/*
 * What a task gets at its place before it must let others go first, by the largest of those that ended lately (0: not
 * known, there is no bound): half as much again, QCLIMB_TASK_LEAST_BYTES at least. OPTAX has no such rule: its senders
 * know a large flow from their backlog before its first byte, a receiver only when more than small_coflow_bytes of it
 * have come.
 */
#define QCLIMB_TASK_LEAST_BYTES (256u << 10)

static inline uint64_t qclimb_task_bound(uint64_t ended_bytes)
{
	const uint64_t bound = ended_bytes > UINT64_MAX / 3 * 2 ? UINT64_MAX : ended_bytes + ended_bytes / 2;

	if (!ended_bytes)
		return UINT64_MAX;
	return bound < QCLIMB_TASK_LEAST_BYTES ? QCLIMB_TASK_LEAST_BYTES : bound;
}

/*
 * That largest one after a task of `bytes` ended: up at once, though fourfold at most, and down by a 16th of the
 * difference.
 */
static inline uint64_t qclimb_task_bytes_next(uint64_t ended_bytes, uint64_t bytes)
{
	if (bytes <= ended_bytes)
		return ended_bytes - (ended_bytes - bytes) / 16;
	return ended_bytes && bytes / 4 > ended_bytes ? ended_bytes * 4 : bytes;
}

/*
 * Algorithm 1: how many active tasks stand before task `id` (0: it is the head); QCLIMB_NOT_IN_LINE if it has no place.
 */
static inline uint32_t qclimb_task_rank(const struct qclimb_task *tasks, uint32_t count, uint64_t id, uint64_t now_ns,
					uint64_t patience_ns)
{
	const struct qclimb_task *own = 0;
	uint32_t before = 0;

	for (uint32_t i = 0; i < count && i < QCLIMB_TASKS; i++)
		if (tasks[i].id == id && id)
			own = &tasks[i];
	if (!own)
		return QCLIMB_NOT_IN_LINE;
	for (uint32_t i = 0; i < count && i < QCLIMB_TASKS; i++) {
		if (&tasks[i] == own || !qclimb_task_is_active(&tasks[i], now_ns, patience_ns))
			continue;
		before += (uint32_t)qclimb_task_is_before(&tasks[i], own);
	}
	return before;
}

/*
 * Ours, not OPTAX's: whether `flows` in line are too few to hold anybody back while the link was not seen to be full:
 * no more than one task's burst is likely to be, or twice as many as stood there when the link was seen half empty (0:
 * it was not). Many short programs are then served as if there were no line; what one of them waits for is seldom the
 * link.
 */
#define QCLIMB_FEW_FLOWS 8u

static inline int qclimb_flows_are_few(uint32_t flows, uint32_t flows_at_slack)
{
	return flows <= QCLIMB_FEW_FLOWS || flows / 2 < flows_at_slack;
}

/* Nor are tasks that all get less than such a burst: ended_bytes is the largest that ended lately, 0: none. */
#define QCLIMB_TINY_TASK_BYTES (QCLIMB_FEW_FLOWS * 10 * 1448)

static inline int qclimb_tasks_are_tiny(uint64_t ended_bytes)
{
	return ended_bytes && ended_bytes <= QCLIMB_TINY_TASK_BYTES;
}

/* And not where the link is full either, if it carries each of them in QCLIMB_TINY_TASK_NS. */
#define QCLIMB_TINY_TASK_NS 2000000

static inline int qclimb_tasks_are_brief(uint64_t ended_bytes, uint64_t capacity)
{
	return qclimb_tasks_are_tiny(ended_bytes) && ended_bytes <= capacity / (1000000000 / QCLIMB_TINY_TASK_NS);
}

/* What is seen of the link: an interval alone says little, for applications read in bursts. */
enum qclimb_link { QCLIMB_LINK_UNKNOWN, QCLIMB_LINK_SLACK, QCLIMB_LINK_FULL };

/*
 * How many tasks after the head have its window too, from time to time while others wait: where the link is not full
 * those that are served can't fill it (slow senders, a busy processor) and one more joins them, or as many again where
 * it is half empty; where it is full fewer may do.
 */
static inline uint32_t qclimb_joined_next(uint32_t joined, enum qclimb_link link)
{
	if (link == QCLIMB_LINK_FULL)
		return joined / 2;
	if (joined >= QCLIMB_TASKS)
		return QCLIMB_TASKS;
	joined = joined < QCLIMB_TASKS / 2 && link == QCLIMB_LINK_SLACK ? 2 * joined + 1 : joined + 1;
	return joined < QCLIMB_TASKS ? joined : QCLIMB_TASKS;
}

/* alpha C, in bytes a second. */
static inline uint64_t qclimb_congested_rate(uint64_t capacity)
{
	return capacity / QCLIMB_ALPHA_WHOLE * QCLIMB_ALPHA_PARTS +
	       capacity % QCLIMB_ALPHA_WHOLE * QCLIMB_ALPHA_PARTS / QCLIMB_ALPHA_WHOLE;
}

/*
 * Algorithm 2: the window of each of the head's flows after an interval in which the host received `rate` bytes a
 * second of its `capacity`: a segment less from alpha C on, twice as many up to half of that, else one more. In [least,
 * most] segments.
 */
static inline uint32_t qclimb_window_next(uint32_t window, uint64_t rate, uint64_t capacity, uint32_t least,
					  uint32_t most)
{
	const uint64_t congested = qclimb_congested_rate(capacity);
	uint64_t next;

	if (rate >= congested)
		next = window ? window - 1 : 0;
	else if (rate <= congested / 2)
		next = (uint64_t)window * 2;
	else
		next = (uint64_t)window + 1;
	return next < least ? least : next > most ? most : (uint32_t)next;
}

/*
 * The window of each large flow beside a line, after an interval in which all `larges` of them received `rate`, and
 * `smalls` flows stood in line; 0: the kernel's own. Half as large, from `most` on, where they have more than fair
 * sharing would give them, and back by doubling. Ours, not OPTAX's: its ports serve small tasks first, where ours have
 * one queue a large flow that fills it leaves a head's first windows little.
 */
static inline uint32_t qclimb_large_window_next(uint32_t window, uint64_t rate, uint64_t capacity, uint32_t larges,
						uint32_t smalls, uint32_t least, uint32_t most)
{
	const uint64_t flows = (uint64_t)larges + smalls;

	if (!larges || !smalls)
		return 0;
	if (rate / larges > capacity / flows)
		return !window || window > most ? most : window / 2 < least ? least : window / 2;
	return !window || window > most / 2 ? 0 : window * 2;
}

/*
 * What Algorithm 3 takes for b, after an interval in which `rate` was received before those behind, and `was` before:
 * all of the capacity at once where the link is full, what was measured where it has slack, and else from there down by
 * a RETURNS_th of it an interval at most. A measured rate swings; were those behind let in at each swing they would keep
 * what they got, for the head needs an empty queue to win it back.
 */
#define QCLIMB_RETURNS 20u

static inline uint64_t qclimb_rate_before_next(uint64_t was, uint64_t rate, uint64_t capacity, enum qclimb_link link)
{
	const uint64_t step = capacity / QCLIMB_RETURNS + 1;
	uint64_t least;

	if (link == QCLIMB_LINK_FULL || rate >= capacity)
		return capacity;
	if (link == QCLIMB_LINK_SLACK)
		return rate;
	least = was > capacity ? capacity : was;
	least = least > step ? least - step : 0;
	return rate > least ? rate : least;
}

/*
 * Algorithm 3: how long a flow behind the head waits between two windows, so that all of them together take no more
 * than alpha C leaves beside what goes first: n w / (alpha C - b) less the round trip that passes anyway, at most
 * delay_most_ns.
 */
static inline uint64_t qclimb_ack_delay_ns(uint32_t flows, uint64_t window_bytes, uint64_t capacity,
					   uint64_t rate_before, uint64_t base_rtt_ns, uint64_t delay_most_ns)
{
	const uint64_t congested = qclimb_congested_rate(capacity);
	uint64_t bytes, left, delay_ns;

	if (rate_before >= congested)
		return delay_most_ns;
	left = congested - rate_before;
	if (flows && window_bytes > UINT64_MAX / flows)
		return delay_most_ns;
	bytes = flows * window_bytes;
	if (bytes / left >= delay_most_ns / 1000000000 + 1)
		return delay_most_ns;
	/* Whole seconds apart, so that nothing overflows; the rest is below `left`, scaled down where it is large. */
	delay_ns = bytes / left * 1000000000;
	bytes %= left;
	if (bytes > UINT64_MAX / 1000000000) {
		bytes >>= 30;
		left = (left >> 30) + 1;
	}
	delay_ns += bytes * 1000000000 / left;
	delay_ns = delay_ns > base_rtt_ns ? delay_ns - base_rtt_ns : 0;
	return delay_ns < delay_most_ns ? delay_ns : delay_most_ns;
}

#endif
