/*
 * What the kernel mode knows of a socket's outgoing stream, and how a flow of it begins and ends: socket storage, the
 * history of sizes, the records. For the programs that see sockets open and close (scope.bpf.c) and write (write.h).
 *
 * A socket has a `stream` only if it was opened in a cgroup, and at a port, that the operator opted in. Everything is a
 * position: the kernel's count of bytes ACKed plus what is under way, as the tagger's egress counts.
 * Written under the socket's lock alone. What most flows have no need of is no part of the path that they take: it would
 * push what they need out of the processor's cache.
 * Invariant: a socket without a stream is left as it is.
 */
#ifndef QCLIMB_TAGGER_STREAM_H
#define QCLIMB_TAGGER_STREAM_H

#include <stdint.h>

#include <bpf/bpf_endian.h>
#include <qclimb/footprint.h>
#include <qclimb/policy.h>
#include <qclimb/record.h>
#include <qclimb/turn.h>

#include "kernel_types.h"
#include "maps.h"

#define NS_PER_US 1000
#define GAP_MAX_US UINT64_C(1000000000)
#define RECORDS_BYTES (4 << 20)

struct stream { /* what every write of a small flow touches lies first */
	uint64_t start; /* position of the flow's first byte */
	uint64_t asked; /* position at which the application's calls end */
	uint64_t message_end; /* position at which the message ends that the bytes announced last; 0: none */
	uint64_t start_ns, last_write_ns;
	uint64_t process_ns; /* when the process began that began the flow */
	uint64_t first_write_bytes;
	uint32_t read_seq; /* what the application had read at the last write */
	uint32_t pid;
	struct qclimb_footprint footprint;
	uint32_t flows;
	uint8_t role; /* 1: this side accepted */
	uint8_t is_open; /* a flow is under way */
	uint8_t is_told; /* the library finds this socket's flows, and tells of them */
	uint8_t is_forecast; /* the forest was asked about this flow */
	uint8_t is_followed; /* a record will tell of the flow */
	uint8_t is_plain; /* it goes first as a whole, so far: one may stand for many */
	uint8_t goes_first; /* at the socket stands no rule: all of it goes first */
	uint8_t is_exact; /* where a message ends, a flow does */
	uint8_t is_within; /* the peer is this host */
	uint8_t waits; /* others go before its process (windows.h) */
	uint8_t is_clamped;
	uint8_t tos; /* that the kernel mode gave the socket itself; 0: none (mark.h) */
	uint8_t has_own_tos; /* its application chose one: it stays */
	char comm[16] __attribute__((aligned(8)));
	uint32_t own_so_priority, so_priority; /* the application's, and what stands there for us */
	uint64_t received, received_from; /* as of the last look; where the flow that comes in began */
	uint64_t sendfile_bytes, sendfile_end; /* what the last call asked for; position at which it ends */
	uint64_t gap_us, last_size_bytes[QCLIMB_LAST_SIZES]; /* valid if is_followed */
	uint64_t cookie;
	uint64_t heard_ns, looked_ns;
	uint8_t local[16], peer[16]; /* IPv4 as v4-mapped */
	uint16_t local_port, peer_port;
	uint32_t local_number, peer_number; /* the addresses as features */
};

struct history_key {
	uint8_t peer[16];
	uint32_t pid;
	uint16_t service_port;
	uint16_t role;
};

/* Of flows that were followed. */
struct history {
	uint64_t end_ns; /* the last write of the flow before */
	uint64_t last_size_bytes[QCLIMB_LAST_SIZES]; /* newest first; 0: none */
};

/*
 * Of plain flows each is followed while there are few, and one of 64 beyond: a record takes longer to write than such a
 * flow to be found. Each record tells how many flows it stands for, so that none is missing from their number.
 */
#define FOLLOWED_MOST 64 /* in a stretch of time, a processor */
#define STRETCH_SHIFT 26 /* 67 ms */
#define CHANCE_MASK 63 /* of a clock's last bits */

struct pace {
	uint64_t stretch, followed;
	uint64_t untold; /* plain flows that ended since the last record of one */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct pace);
} paces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct history_key);
	__type(value, struct history);
} histories SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct qclimb_policy);
} host_policy SEC(".maps");

/* struct kernel_record, one after another; a full buffer drops and counts. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RECORDS_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KERNEL_COUNTS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, uint64_t);
} kernel_counts SEC(".maps");

static __always_inline void kernel_count(uint32_t what, uint64_t many)
{
	uint64_t *number = bpf_map_lookup_elem(&kernel_counts, &what);

	if (number)
		*number += many;
}

static __always_inline int is_mapped(const uint8_t *address)
{
	uint32_t word[3];

	__builtin_memcpy(word, address, sizeof(word));
	return !word[0] && !word[1] && word[2] == bpf_htonl(0xffff);
}

/* The position of the next byte that the application writes. */
static __always_inline uint64_t written_of(const struct tcp_sock *tcp)
{
	return tcp->bytes_acked + (uint32_t)(tcp->write_seq - tcp->snd_una);
}

static __always_inline struct history_key history_key_of(const struct stream *stream)
{
	struct history_key key = { .pid = stream->pid, .role = stream->role };

	__builtin_memcpy(key.peer, stream->peer, sizeof(key.peer));
	key.service_port = stream->role ? stream->local_port : stream->peer_port;
	return key;
}

static __always_inline uint64_t start_us_of(const struct stream *stream)
{
	return (stream->start_ns - stream->process_ns) / NS_PER_US;
}

/* Of its last byte, as the tagger marks it. */
static __always_inline uint8_t last_priority_of(const struct stream *stream, const struct qclimb_policy *policy,
						uint64_t size_bytes)
{
	const struct qclimb_flow_rule rule = qclimb_flow_rule_of(policy, &stream->footprint);
	const uint64_t last = size_bytes - 1, most = qclimb_demoting_bytes(size_bytes);
	const uint64_t demotion = rule.footprint_bytes ? qclimb_larger(last, rule.footprint_bytes)
				  : most < last	       ? most
						       : last;

	if (policy->mode < QCLIMB_PIAS || stream->goes_first)
		return 0;
	return (uint8_t)qclimb_priority(policy->threshold_bytes, policy->priorities, &rule.bounds, last, demotion);
}

/* `stands_for`: so many flows, this one among them. */
static __always_inline void record_flow(const struct stream *stream, const struct qclimb_policy *policy,
					uint64_t size_bytes, uint64_t flags, uint64_t stands_for)
{
	struct kernel_record *entry = bpf_ringbuf_reserve(&records, sizeof(*entry), 0);
	struct qclimb_record *record;

	if (!entry) {
		kernel_count(KERNEL_DROPPED, stands_for);
		return;
	}
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->flows = stands_for;
	record = &entry->record;
	record->start_ns = stream->start_ns;
	record->last_write_ns = stream->last_write_ns;
	record->size_bytes = size_bytes;
	record->lower_bytes = stream->footprint.has_forest ? stream->footprint.foretold.lower_bytes : 0;
	record->upper_bytes =
		stream->footprint.has_forest ? stream->footprint.foretold.upper_bytes : QCLIMB_UNKNOWN_BYTES;
	record->first_write_bytes = stream->first_write_bytes;
	record->footprint_lower_bytes =
		stream->footprint.is_fixed ? stream->footprint.fixed_lower_bytes : stream->footprint.asked_bytes;
	if (stream->message_end > stream->start) {
		record->announced_bytes = stream->message_end - stream->start;
		record->announced_by = QCLIMB_BY_RULE;
	}
	record->start_us = start_us_of(stream);
	record->gap_us = stream->gap_us;
	__builtin_memcpy(record->last_size_bytes, stream->last_size_bytes, sizeof(record->last_size_bytes));
	record->connection = stream->cookie;
	record->pid = stream->pid;
	record->flow_index = stream->flows;
	__builtin_memcpy(record->local_addr, stream->local, sizeof(record->local_addr));
	__builtin_memcpy(record->peer_addr, stream->peer, sizeof(record->peer_addr));
	record->local_port = stream->local_port;
	record->peer_port = stream->peer_port;
	record->role = stream->role;
	record->mode = (uint8_t)policy->mode;
	record->last_priority = last_priority_of(stream, policy, size_bytes);
	record->flags = (uint32_t)flags | (stream->footprint.has_forest ? QCLIMB_RECORD_FOREST : 0) |
			(policy->mode == QCLIMB_FULL && stream->footprint.has_length ? QCLIMB_RECORD_LENGTH : 0);
	__builtin_memcpy(record->comm, stream->comm, sizeof(record->comm));
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP); /* hostd looks by itself */
	kernel_count(KERNEL_FLOWS, stands_for);
}

/*
 * A flow ended: what the next one of this service begins by. Written in place, for an update would make another entry:
 * of two processors that end flows of one service at once, one may be forgotten.
 */
static __always_inline void remember(const struct stream *stream, uint64_t size_bytes)
{
	const struct history_key key = history_key_of(stream);
	struct history first = { .end_ns = stream->last_write_ns, .last_size_bytes = { size_bytes } };
	struct history *past = bpf_map_lookup_elem(&histories, &key);

	if (!past) {
		bpf_map_update_elem(&histories, &key, &first, BPF_ANY);
		return;
	}
	for (int i = QCLIMB_LAST_SIZES - 1; i > 0; i--)
		past->last_size_bytes[i] = past->last_size_bytes[i - 1];
	past->last_size_bytes[0] = size_bytes;
	past->end_ns = stream->last_write_ns;
}

static __noinline int tell(const struct stream *stream, const struct qclimb_policy *policy, uint64_t size_bytes,
			   uint64_t flags, uint64_t stands_for)
{
	record_flow(stream, policy, size_bytes, flags, stands_for);
	remember(stream, size_bytes);
	return 0;
}

/* The flow under way is over, `written` being the position after its last byte. */
static __always_inline void stream_finish(struct stream *stream, uint64_t written, const struct qclimb_policy *policy,
					  uint8_t flags)
{
	uint64_t size_bytes, stands_for = 1;
	struct pace *pace;

	if (!stream->is_open)
		return;
	stream->is_open = 0;
	if (written > stream->asked)
		written = stream->asked; /* a FIN has a place in the stream */
	size_bytes = written - stream->start;
	if (!size_bytes || stream->is_told)
		return;
	if (stream->is_plain) {
		pace = ONLY(&paces);
		if (!pace)
			return;
		stands_for = ++pace->untold;
		if (stream->is_followed)
			pace->untold = 0;
	}
	if (stream->is_followed)
		tell(stream, policy, size_bytes, flags, stands_for);
	stream->flows++;
}

#endif
