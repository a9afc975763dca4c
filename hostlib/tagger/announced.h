/*
 * The sizes that programs write into the first bytes of their messages, in the kernel: length.h's rules, which hostd
 * puts into `lengths`, asked of the application's own memory when a flow begins. For BPF only.
 *
 * The memory is read as it lies, without waiting for a page that is not there: then, as for calls of kernel memory
 * (sendfile, kTLS) and of several pieces beyond the first, nothing is known. HTTP is the library's alone: the verifier
 * follows no header.
 * Invariant: nothing is read of a program of which no rule is in force.
 */
#ifndef QCLIMB_TAGGER_ANNOUNCED_H
#define QCLIMB_TAGGER_ANNOUNCED_H

#include <qclimb/length.h>

#include <bpf/bpf_core_read.h>

#include "stream.h"

/* The first bytes of struct qclimb_length_entry. */
struct length_key {
	char comm[16];
	uint16_t port;
	uint8_t role, reserved;
};

/* Rules in force alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, QCLIMB_LENGTHS_MOST);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct length_key);
	__type(value, struct qclimb_length_entry);
} lengths SEC(".maps");

/* Ports of the kernel's choice, which stand for one service, port 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct qclimb_port_range);
} length_ports SEC(".maps");

static __always_inline const struct qclimb_length_entry *rule_in_force(const struct stream *stream)
{
	const struct qclimb_port_range *chosen = ONLY(&length_ports);
	struct length_key key = { .role = stream->role };
	const struct qclimb_length_entry *found;

	__builtin_memcpy(key.comm, stream->comm, sizeof(key.comm));
	key.port = stream->role ? stream->local_port : stream->peer_port;
	found = bpf_map_lookup_elem(&lengths, &key);
	if (found || !chosen || !key.port)
		return found;
	key.port = qclimb_length_port(key.port, *chosen);
	return key.port ? 0 : bpf_map_lookup_elem(&lengths, &key);
}

/* Where the call's first bytes lie, and how many there are (`bytes` at most); 0: not in an application's memory. */
static __always_inline const void *first_bytes(const struct msghdr *message, uint64_t *bytes)
{
	const struct iov_iter *iter = &message->msg_iter;
	const uint8_t type = BPF_CORE_READ(iter, iter_type);
	const struct iovec *parts;
	struct iovec first;

	if (bpf_core_enum_value_exists(enum iter_type, ITER_UBUF) &&
	    type == bpf_core_enum_value(enum iter_type, ITER_UBUF))
		return BPF_CORE_READ(iter, ubuf);
	if (type != bpf_core_enum_value(enum iter_type, ITER_IOVEC))
		return 0;
	if (bpf_core_field_exists(iter->__iov))
		parts = BPF_CORE_READ(iter, __iov);
	else
		parts = BPF_CORE_READ((const struct iov_iter___before_6_4 *)iter, iov);
	if (bpf_probe_read_kernel(&first, sizeof(first), parts))
		return 0;
	if (*bytes > first.iov_len)
		*bytes = first.iov_len;
	return first.iov_base;
}

/* What the `left` bytes of the call that begins the flow say of its size; 0: nothing. */
static __noinline uint64_t look_at_head(struct stream *stream, const struct msghdr *message, uint64_t left)
{
	/* Room behind: a number that begins within the bytes shown may be read beyond where they end. */
	uint8_t head[QCLIMB_LENGTH_HEAD_BYTES + 8] = { 0 };
	const struct qclimb_length_entry *entry = rule_in_force(stream);
	struct qclimb_length_rule rule;
	const void *from;

	if (!entry)
		return 0;
	from = first_bytes(message, &left);
	if (!from || left < 1)
		return 0;
	if (left > QCLIMB_LENGTH_HEAD_BYTES)
		left = QCLIMB_LENGTH_HEAD_BYTES;
	left = ((opaque(left) - 1) & (QCLIMB_LENGTH_HEAD_BYTES - 1)) + 1;
	if (bpf_probe_read_user(head, (uint32_t)left, from))
		return 0;
	rule = qclimb_length_rule_of(entry);
	if (!qclimb_length_rule_holds(&rule))
		return 0;
	/* The verifier follows no sum: offset + width <= 64 says nothing to it of an offset alone. */
	rule.offset = (uint8_t)(opaque(rule.offset) & (QCLIMB_LENGTH_HEAD_BYTES - 1));
	rule.tag_offset = (uint8_t)(opaque(rule.tag_offset) & (QCLIMB_LENGTH_HEAD_BYTES - 1));
	stream->is_exact = entry->is_exact;
	return qclimb_length_foretell(&rule, head, (uint32_t)left);
}

/*
 * A flow begins at stream->start: a message, after the connection's first byte, a turn, or a message that ended there;
 * or the rest of one. Elsewhere nothing is known.
 */
static __always_inline void announce(struct stream *stream, const struct msghdr *message, uint64_t left,
				     int may_begin_message)
{
	uint64_t size_bytes = 0;

	if (may_begin_message || stream->message_end == stream->start)
		size_bytes = look_at_head(stream, message, left);
	else if (stream->message_end > stream->start)
		size_bytes = stream->message_end - stream->start;
	stream->message_end = size_bytes ? stream->start + size_bytes : 0;
	if (size_bytes)
		qclimb_footprint_announce(&stream->footprint, size_bytes, stream->is_exact);
}

#endif
