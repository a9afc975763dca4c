/*
 * The tagger: QCLIMB's Algorithm 1 on each packet that leaves (clsact egress), and its receiver's half, which tells
 * loss from overtaking (clsact ingress) and hides the SACKs of what was only overtaken (egress):
 * docs/design/tagger.md.
 *
 * The rule of a flow is what the library left at the socket; where in the flow a packet lies, and whether it is sent
 * for the first time, is asked of the socket itself: a program at egress runs within TCP's own call, before TCP moves
 * snd_nxt. So it keeps nothing for each flow. It must therefore be at the device that the socket's packets reach first
 * without a queue in between.
 * Invariant: every packet goes on, whatever happens here; one of a socket without a rule goes as it is.
 */
#include <stdint.h>

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "arrivals.h"
#include "maps.h"
#include "packet.h"

#define OPTION_END 0
#define OPTION_NOP 1
#define OPTION_SACK 5
#define OPTION_TIMESTAMP 8
#define TIMESTAMP_BYTES 12 /* with two NOPs (RFC 7323, appendix A) */
#define OPTIONS_STEPS 12
#define OPTIONS_ROOM 64 /* a power of two past 40, for the verifier */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct tagger_policy);
} policy SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct tagger_path);
	__type(value, uint32_t); /* the device's index */
} paths SEC(".maps");

struct connection_key {
	uint8_t local[16], peer[16];
	uint32_t ports; /* as in the packet that came in: peer's, ours */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, struct connection_key);
	__type(value, struct arrivals);
} arrivals SEC(".maps");

struct silences {
	struct silence of[ARRIVALS_PRIORITIES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, struct silences);
} silences SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TAGGER_COUNTS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, uint64_t);
} counts SEC(".maps");

_Static_assert(TAGGER_JUDGED == ARRIVALS_PRIORITIES, "the policy says of each priority what proves a loss of it");

static __always_inline void count(uint32_t what)
{
	uint64_t *number = bpf_map_lookup_elem(&counts, &what);

	if (number)
		(*number)++;
}

/* --- what leaves */

/* A connection begins here: the library may leave what flows between these addresses to the tagger. */
static __always_inline void note_path(struct __sk_buff *skb, const struct packet *packet)
{
	const uint32_t device = skb->ifindex;
	struct tagger_path path;
	uint32_t *known;

	if (packet_addresses(skb, packet, path.local, path.peer))
		return;
	known = bpf_map_lookup_elem(&paths, &path);
	if (!known || *known != device)
		bpf_map_update_elem(&paths, &path, &device, BPF_ANY);
}

static __always_inline uint32_t priority_at(const struct tagger_policy *rules, const struct tagger_socket *told,
					    uint64_t position)
{
	const struct tagger_flow *flow = position >= told->now.start ? &told->now : &told->before;
	uint64_t sent, demotion;

	if (position < flow->start)
		return 0;
	sent = position - flow->start;
	demotion = sent > flow->footprint_bytes ? sent : flow->footprint_bytes;
	if (demotion < rules->threshold_bytes[1] && flow->bounds.lower_bytes < rules->threshold_bytes[1] &&
	    sent < flow->bounds.upper_bytes)
		return 0; /* most flows are small */
	return qclimb_priority(rules->threshold_bytes, rules->priorities, &flow->bounds, sent, demotion);
}

static __always_inline int is_by_kernel(const struct tagger_socket *told)
{
	return told && told->before.start == TAGGER_BY_KERNEL;
}

static __always_inline void mark_as(struct __sk_buff *skb, const struct packet *packet, uint32_t priority, uint8_t dscp)
{
	if (!skb->priority)
		skb->priority = qclimb_so_priority(priority);
	if (packet_mark(skb, packet, dscp & 63))
		count(TAGGER_TAGGED);
}

/* A packet of several segments, which share its mark, goes by its middle: half of what it misplaces is late. */
static __always_inline uint64_t middle_of(const struct __sk_buff *skb, const struct packet *packet)
{
	return skb->gso_segs > 1 ? packet->payload_bytes / 2 : 0;
}

/*
 * ACKs and what is sent again go first (QCLIMB 3.2.3), on any path where priorities are pinned to paths; a FIN has its place in the stream, and must not overtake what
 * comes before.
 */
static __always_inline void tag(struct __sk_buff *skb, const struct packet *packet, const struct tagger_policy *rules,
				struct bpf_sock *sk, const struct tagger_socket *told)
{
	struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);
	uint32_t priority = 0;
	uint8_t dscp = rules->rest_dscp;

	if (!tcp || (told->before.start == TAGGER_BY_KERNEL && packet->dscp))
		return; /* the application's own DSCP */
	if ((packet->payload_bytes || packet->tcp_flags & TCP_FIN) && (int32_t)(packet->seq - tcp->snd_nxt) >= 0) {
		priority = priority_at(rules, told,
				       tcp->bytes_acked + (uint64_t)(int64_t)(int32_t)(packet->seq - tcp->snd_una) +
					       middle_of(skb, packet));
		dscp = qclimb_dscp_of(rules->dscp, rules->priorities, priority);
	}
	mark_as(skb, packet, priority, dscp);
}

/* The handshake goes first: SYN, and the SYN-ACK that a listener in scope sends. */
static __always_inline void tag_handshake(struct __sk_buff *skb, const struct packet *packet,
					  const struct tagger_policy *rules, struct bpf_sock *sk)
{
	struct bpf_sock *own;

	if (packet->dscp)
		return;
	own = packet->tcp_flags & TCP_ACK ? bpf_get_listener_sock(sk) : bpf_sk_fullsock(sk);
	if (own && is_by_kernel(bpf_sk_storage_get(&flows, own, 0, 0)))
		mark_as(skb, packet, 0, rules->rest_dscp);
}

/* --- what arrives */

static __always_inline long key_of(struct __sk_buff *skb, const struct packet *packet, int is_ingress,
				   struct connection_key *key)
{
	uint8_t *source = is_ingress ? key->peer : key->local;
	uint8_t *destination = is_ingress ? key->local : key->peer;
	long error = packet_addresses(skb, packet, source, destination);

	error = error ?: bpf_skb_load_bytes(skb, packet->transport, &key->ports, sizeof(key->ports));
	if (!is_ingress)
		key->ports = key->ports << 16 | key->ports >> 16;
	return error;
}

/* The same number, 1 to OPTIONS_ROOM for every verifier. */
static __always_inline uint32_t room(uint32_t bytes)
{
	return (uint32_t)((opaque(bytes) - 1) & (OPTIONS_ROOM - 1)) + 1;
}

/* Overwrites the SACK by NOPs. */
static __always_inline void hide(struct __sk_buff *skb, const struct packet *packet, uint8_t *options, uint32_t at)
{
	const uint32_t from = packet->transport + (uint32_t)sizeof(struct tcphdr);
	const uint32_t bytes = packet->options_bytes & 60;
	uint32_t len = options[(at + 1) & (OPTIONS_ROOM - 1)];
	uint8_t old[OPTIONS_ROOM];
	int64_t difference;

	if (bytes < 4 || bytes > OPTIONS_BYTES || len < 2 || len > OPTIONS_BYTES)
		return;
	__builtin_memcpy(old, options, sizeof(old));
	for (uint64_t i = 0; i < OPTIONS_BYTES; i++) {
		const uint8_t within = (uint8_t)(0 - qclimb_at_most(i + 1, len));
		uint8_t *option = &options[(at + i) & (OPTIONS_ROOM - 1)];

		*option = (uint8_t)((*option & ~within) | (OPTION_NOP & within));
	}
	difference = bpf_csum_diff((__be32 *)(void *)old, bytes, (__be32 *)(void *)options, bytes, 0);
	if (difference < 0 || bpf_skb_store_bytes(skb, from, options, room(bytes), 0))
		return;
	(void)bpf_l4_csum_replace(skb, packet->transport + offsetof(struct tcphdr, check), 0, (uint64_t)difference, 0);
	count(TAGGER_HIDDEN);
}

/* Hides the packet's SACK if what it tells of was only overtaken. */
static __always_inline void filter(struct __sk_buff *skb, const struct packet *packet,
				   const struct tagger_policy *rules)
{
	uint8_t options[OPTIONS_ROOM] = { 0 };
	const uint32_t bytes = packet->options_bytes & 60;
	struct silences *known;
	struct connection_key key;
	struct arrivals *flow;
	enum verdict verdict;
	uint32_t at = 0;

	if (bytes < 12 || bytes > OPTIONS_BYTES ||
	    bpf_skb_load_bytes(skb, packet->transport + (uint32_t)sizeof(struct tcphdr), options, room(bytes)))
		return;
	if (bytes == TIMESTAMP_BYTES && options[0] == OPTION_NOP && options[2] == OPTION_TIMESTAMP)
		return; /* most packets: nothing else */
	for (int i = 0; i < OPTIONS_STEPS; i++) {
		const uint8_t kind = options[at & (OPTIONS_ROOM - 1)];

		if (kind == OPTION_SACK)
			break;
		if (kind == OPTION_END)
			return;
		at += kind == OPTION_NOP ? 1 : options[(at + 1) & (OPTIONS_ROOM - 1)];
	}
	at &= OPTIONS_ROOM - 1;
	if (options[at] != OPTION_SACK || key_of(skb, packet, 0, &key))
		return;
	flow = bpf_map_lookup_elem(&arrivals, &key);
	known = ONLY(&silences);
	if (!flow || !known)
		return;
	verdict = arrivals_judge(flow, known->of, rules->proves, packet->ack, bpf_ktime_get_ns());
	if (verdict == VERDICT_OVERTAKEN)
		hide(skb, packet, options, at);
	else
		count(verdict == VERDICT_HELD ? TAGGER_HELD : TAGGER_LOST);
}

static __always_inline void note_arrival(struct __sk_buff *skb, const struct packet *packet,
					 const struct tagger_policy *rules)
{
	const uint32_t priority = rules->priority_of_dscp[opaque(packet->dscp) & 63];
	const uint32_t bytes = packet->payload_bytes + (packet->tcp_flags & TCP_FIN);
	struct connection_key key;
	struct arrivals *flow;

	if (packet->tcp_flags & TCP_SYN) {
		if (!key_of(skb, packet, 1, &key))
			(void)bpf_map_delete_elem(&arrivals, &key); /* the ports' last connection is over */
		return;
	}
	if (!bytes || (priority >= ARRIVALS_PRIORITIES && priority != TAGGER_AT_REST) || key_of(skb, packet, 1, &key))
		return;
	flow = bpf_map_lookup_elem(&arrivals, &key);
	if (!flow) {
		struct arrivals begun;

		if (priority == TAGGER_AT_REST || (!priority && rules->proves[0] == UINT16_MAX))
			return; /* a flow that has not left priority 0 can't overtake itself, but on another path */
		arrivals_start(&begun, packet->seq);
		bpf_map_update_elem(&arrivals, &key, &begun, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&arrivals, &key);
		if (!flow)
			return;
	}
	arrivals_note(flow, packet->seq, bytes, priority, flow->gap ? bpf_ktime_get_ns() : 0);
}

/*
 * A packet that came in here before it leaves was marked where it was born; its socket is ahead of it by now. In the
 * kernel mode nothing is read of packets whose sockets have no rule.
 */
SEC("tc")
int egress(struct __sk_buff *skb)
{
	const struct tagger_policy *rules = ONLY(&policy);
	struct bpf_sock *sk = skb->sk, *own = sk ? bpf_sk_fullsock(sk) : 0;
	const struct tagger_socket *told = own ? bpf_sk_storage_get(&flows, own, 0, 0) : 0;
	struct packet packet;

	if (!rules || !rules->priorities || skb->ingress_ifindex)
		return TC_ACT_UNSPEC;
	if ((rules->flags & TAGGER_SCOPED && own && !told) || !packet_read(skb, &packet))
		return TC_ACT_UNSPEC;
	if (packet.tcp_flags & TCP_SYN) {
		if (sk) {
			note_path(skb, &packet);
			tag_handshake(skb, &packet, rules, sk);
		}
		return TC_ACT_UNSPEC;
	}
	if (rules->flags & TAGGER_FILTER && packet.tcp_flags & TCP_ACK && (told || !(rules->flags & TAGGER_SCOPED)))
		filter(skb, &packet, rules);
	if (own && told)
		tag(skb, &packet, rules, own, told);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	const struct tagger_policy *rules = ONLY(&policy);
	struct packet packet;

	if (rules && rules->priorities && rules->flags & TAGGER_FILTER && packet_read(skb, &packet))
		note_arrival(skb, &packet, rules);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
