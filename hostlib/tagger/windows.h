/*
 * Receive windows in the kernel mode (OPTAX): where several small tasks receive at once, the one that came first has the
 * kernel's window, and the others one segment a round trip. The line's order is coflow.h's; a task is a process. For
 * the sockops program of scope.bpf.c alone.
 *
 * A connection that this host opens offers two segments at first (BPF_SOCK_OPS_RWND_INIT; the window's scale stays what
 * it would be), or the sender would fill the link before anything is known of it. From then on each packet that leaves
 * for the peer carries a window by TCP_WINDOW_CLAMP, set as its header is measured. SO_RCVBUF is left alone.
 *
 * A process with a large flow has no place in the line, nor is it held back: all of its flows are large (OPTAX's rule).
 * What waits has its share of the port's queue, and so of its rate, by what it has under way: hence no more than a segment.
 *
 * Invariant: a window holds the largest segment that the peer may send, so that nobody stands still who is held back.
 */
#ifndef QCLIMB_TAGGER_WINDOWS_H
#define QCLIMB_TAGGER_WINDOWS_H

#include <qclimb/coflow.h>

#include "stream.h"

#define LEVEL_TCP 6
#define WINDOW_CLAMP 10 /* TCP_WINDOW_CLAMP; <linux/tcp.h> declares more than BPF may */
#define FIRST_SEGMENTS 2 /* of one, the sender would take its half for the most that it may send at once */
#define LEAST_CLAMP 1536 /* above what the kernel raises a clamp to; so much of small segments */
#define NO_CLAMP (1 << 30)
#define NS_PER_MS UINT64_C(1000000)
#define PATIENCE_NS (20 * NS_PER_MS) /* these four as the library has them: shim/optax/line.h, optax.c */
#define LOSES_PLACE_NS (250 * NS_PER_MS)
#define FORGET_NS (1000 * NS_PER_MS)
#define QUIET_NS (250 * NS_PER_MS)
#define LOOK_NS (NS_PER_MS / 2) /* a socket's place is looked up no oftener */
#define TASKS 256

struct task {
	struct qclimb_task line;
	uint64_t large_ns; /* last time that a large flow of it received */
};

/* By process. Several processors may write one; a number that is lost puts off a place by one look. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TASKS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct task);
} tasks SEC(".maps");

struct place {
	struct qclimb_task own;
	uint64_t now;
	uint32_t is_later; /* another task goes before */
};

static __always_inline int is_large(const struct task *task, uint64_t now)
{
	return task->large_ns && now - task->large_ns < LOSES_PLACE_NS;
}

/* Ends with the first task that goes before: a count would have the kernel's verifier follow each number. */
static long look_at(void *map, uint32_t *pid, struct task *task, struct place *place)
{
	const uint64_t now = place->now;

	if (task->line.active_ns < now && now - task->line.active_ns > FORGET_NS) {
		bpf_map_delete_elem(map, pid);
		return 0;
	}
	if (task->line.id == place->own.id || !qclimb_task_is_active(&task->line, now, PATIENCE_NS) ||
	    is_large(task, now) || !qclimb_task_is_before(&task->line, &place->own))
		return 0;
	place->is_later = 1;
	return 1;
}

/* Bytes of the flow that comes in: since the application's own last turn, or a pause. Whether anything came. */
static __always_inline int hear(struct stream *stream, uint64_t received, uint64_t now)
{
	if (received == stream->received)
		return 0;
	if (now - stream->heard_ns > QUIET_NS)
		stream->received_from = stream->received;
	stream->received = received;
	stream->heard_ns = now;
	return 1;
}

/* The task's place, by what the socket received: whether others go before it. */
static __always_inline int waits_in_line(struct stream *stream, uint64_t received, uint64_t small_bytes, uint64_t now)
{
	const int has_come = hear(stream, received, now);
	struct task *task = bpf_map_lookup_elem(&tasks, &stream->pid);
	struct place place;

	if (!task) {
		struct task first = { .line = { stream->pid, now, now }, .large_ns = 0 };

		if (!has_come || bpf_map_update_elem(&tasks, &stream->pid, &first, BPF_NOEXIST))
			return 0;
		task = bpf_map_lookup_elem(&tasks, &stream->pid);
		if (!task)
			return 0;
	}
	if (has_come) {
		if (now - task->line.active_ns > LOSES_PLACE_NS && task->line.active_ns < now)
			task->line.arrived_ns = now;
		task->line.active_ns = now;
		if (!qclimb_task_is_small(received - stream->received_from, small_bytes))
			task->large_ns = now;
	}
	if (is_large(task, now))
		return 0;
	place = (struct place){ .own = task->line, .now = now };
	bpf_for_each_map_elem(&tasks, look_at, &place, 0);
	return place.is_later != 0;
}

/* Whether receive windows are the kernel mode's to set. */
static __always_inline int sets_windows(const struct stream *stream, const struct qclimb_policy *policy)
{
	return !stream->is_within && !stream->is_told && policy->mode >= QCLIMB_PIAS && policy->flags & QCLIMB_OPTAX;
}

/* The window of who waits. */
static __always_inline uint32_t least_window(const struct tcp_sock *tcp)
{
	return tcp->advmss > LEAST_CLAMP ? tcp->advmss : LEAST_CLAMP;
}

/* A packet is about to leave for the peer: the window that it will tell. */
static __always_inline void keep_window(struct bpf_sock_ops *ops, struct bpf_sock *sk, struct stream *stream,
					const struct qclimb_policy *policy)
{
	const int is_ours = sets_windows(stream, policy);
	const struct tcp_sock *tcp = is_ours || stream->is_clamped ? (struct tcp_sock *)bpf_skc_to_tcp_sock(sk) : 0;
	const uint64_t now = is_ours ? bpf_ktime_get_ns() : 0;
	int clamp = NO_CLAMP;

	if (!tcp)
		return;
	if (!is_ours) {
		stream->waits = 0;
	} else if (now - stream->looked_ns >= LOOK_NS) {
		stream->looked_ns = now;
		stream->waits = (uint8_t)waits_in_line(stream, tcp->bytes_received, policy->small_coflow_bytes, now);
	}
	if (!stream->waits) {
		if (!stream->is_clamped)
			return;
	} else if (stream->is_clamped && tcp->window_clamp <= least_window(tcp)) {
		return; /* tuning lifts it */
	} else {
		clamp = (int)least_window(tcp);
	}
	bpf_setsockopt(ops, LEVEL_TCP, WINDOW_CLAMP, &clamp, sizeof(clamp));
	stream->is_clamped = stream->waits;
}

#endif
