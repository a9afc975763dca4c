/*
 * What the kernel mode does at each write to a socket in scope: where a flow begins, what its footprint says of its
 * size, and the rule that the tagger's egress then marks packets by. The body of write.bpf.c and write_fentry.bpf.c,
 * which differ in how the kernel calls them.
 *
 * The tracepoint comes once a packet, with what remains of the call. Position plus rest stays the same for as long as a
 * call lasts, so that only a call's first event is decided on.
 */
#ifndef QCLIMB_TAGGER_WRITE_H
#define QCLIMB_TAGGER_WRITE_H

#include "announced.h"
#include "forecast.h"
#include "sendfile.h"

static __always_inline void flow_begins(struct stream *stream, uint64_t written, uint64_t now)
{
	const struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	const struct task_struct *leader = task->group_leader;

	stream->pid = (uint32_t)task->tgid;
	for (int i = 0; i < (int)sizeof(stream->comm); i += 8) /* in words: each byte would be a load of its own */
		*(uint64_t *)&stream->comm[i] = *(const uint64_t *)&leader->comm[i];
	stream->start = written;
	stream->start_ns = now;
	stream->process_ns = leader->start_time;
	stream->received_from = stream->received;
	stream->is_open = 1;
	stream->is_forecast = 0;
	stream->is_followed = 0;
	stream->is_plain = 1;
	qclimb_footprint_start(&stream->footprint);
}

/* Whether a plain flow that begins now is followed. */
static __always_inline int is_chosen(uint64_t now)
{
	struct pace *pace = ONLY(&paces);

	if (!pace)
		return 0;
	if (pace->stretch != now >> STRETCH_SHIFT) {
		pace->stretch = now >> STRETCH_SHIFT;
		pace->followed = 0;
	}
	return pace->followed++ < FOLLOWED_MOST || !(now & CHANCE_MASK);
}

/* A record will tell of the flow under way: what its service sent before. */
static __noinline int follow(struct stream *stream)
{
	const struct history_key key = history_key_of(stream);
	const struct history *past = bpf_map_lookup_elem(&histories, &key);
	const uint64_t gap_ns = past && past->end_ns < stream->start_ns ? stream->start_ns - past->end_ns : 0;

	stream->is_followed = 1;
	stream->gap_us = past && gap_ns / NS_PER_US < GAP_MAX_US ? gap_ns / NS_PER_US : GAP_MAX_US;
	for (int i = 0; i < QCLIMB_LAST_SIZES; i++)
		stream->last_size_bytes[i] = past ? past->last_size_bytes[i] : 0;
	return 0;
}

/* Whether the flow under way, if any, is over before this call. */
static __always_inline int begins(const struct stream *stream, const struct tcp_sock *tcp, uint64_t written,
				  uint64_t now, uint32_t flow_gap_us, int has_read)
{
	const struct qclimb_turn turn = {
		.written = written,
		.asked = stream->asked,
		.idle_ns = now - stream->last_write_ns,
		.gap_ns = (uint64_t)flow_gap_us * NS_PER_US,
		.is_acked = tcp->write_seq == tcp->snd_una,
		.has_read = has_read,
	};

	return !stream->is_open || qclimb_begins_flow(&turn);
}

/* A flow within the first threshold would hardly be served otherwise. */
static __always_inline int is_forecast_due(const struct qclimb_policy *policy, const struct qclimb_footprint *flow)
{
	return policy->mode == QCLIMB_FULL && policy->flags & QCLIMB_USE_FOREST && !flow->has_length &&
	       flow->asked_bytes > policy->threshold_bytes[1];
}

/* All that was asked for goes first, so far: most flows are small. */
static __always_inline int goes_first(const struct qclimb_policy *policy, const struct qclimb_footprint *flow)
{
	return !flow->has_forest && !flow->has_length && flow->asked_bytes <= QCLIMB_BURST_BYTES &&
	       qclimb_demoting_bytes(flow->asked_bytes) < policy->threshold_bytes[1];
}

/*
 * Leaves the flow's rule at the socket, unless the library does, or somebody took the socket from us. Nothing changes
 * there between small flows, which have no rule.
 */
static __noinline int publish(struct sock *sk, struct stream *stream, const struct qclimb_policy *policy, int is_first)
{
	struct tagger_socket *told = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct qclimb_flow_rule rule;

	if (!told)
		return 0;
	if (told->before.start != TAGGER_BY_KERNEL) {
		stream->is_told = 1;
		return 0;
	}
	stream->goes_first = (uint8_t)is_first;
	if (is_first) {
		told->now.start = UINT64_MAX;
		return 0;
	}
	rule = qclimb_flow_rule_of(policy, &stream->footprint);
	told->now.start = stream->start;
	told->now.bounds = rule.bounds;
	told->now.footprint_bytes = rule.footprint_bytes;
	told->asked_bytes = stream->footprint.asked_bytes;
	return 0;
}

/* An application asks to write `left` bytes, some of which an earlier event of the same call may have told of. */
static __always_inline void on_write(struct sock *sk, const struct msghdr *message, uint64_t left)
{
	struct stream *stream = sk->sk_bpf_storage ? bpf_sk_storage_get(&streams, sk, 0, 0) : 0; /* most have none */
	const struct qclimb_policy *policy = ONLY(&host_policy);
	struct tcp_sock *tcp;
	uint64_t written, now;
	int has_read, is_new, is_first;

	if (!stream || !policy || policy->mode == QCLIMB_OFF)
		return;
	tcp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return;
	written = written_of(tcp);
	if (message->msg_flags & SPLICES_PAGES)
		left = left_of_sendfile(stream, written, left);
	if (stream->is_open && written + left == stream->asked)
		return; /* the call goes on */
	now = bpf_ktime_get_ns();
	has_read = tcp->copied_seq != stream->read_seq;
	is_new = begins(stream, tcp, written, now, policy->flow_gap_us, has_read);
	if (is_new) {
		const int is_cut = !has_read && stream->message_end > written;

		stream_finish(stream, written, policy, is_cut ? QCLIMB_RECORD_CUT : 0);
		flow_begins(stream, written, now);
		stream->first_write_bytes = left;
		if (policy->mode != QCLIMB_PIAS && !(policy->flags & QCLIMB_WITHOUT_LENGTHS))
			announce(stream, message, left, has_read || !stream->asked);
	}
	stream->asked = written + left;
	stream->last_write_ns = now;
	stream->read_seq = tcp->copied_seq;
	qclimb_footprint_ask(&stream->footprint, written - stream->start, left, tcp->bytes_acked > stream->start);
	if (!stream->is_forecast && is_forecast_due(policy, &stream->footprint)) {
		stream->is_forecast = 1;
		stream->is_plain = 0;
		if (!stream->is_followed)
			follow(stream);
		forecast_flow(stream);
	}
	is_first = goes_first(policy, &stream->footprint);
	if (!is_first)
		stream->is_plain = 0;
	if (!stream->is_followed && (!is_first || (is_new && is_chosen(now))))
		follow(stream);
	if (policy->mode >= QCLIMB_PIAS && !(is_first && stream->goes_first))
		publish(sk, stream, policy, is_first);
}

#endif
