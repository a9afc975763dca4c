/*
 * The tagger: QCLIMB's Algorithm 1 on each packet that leaves (clsact egress), and of the SACKs that come in (clsact
 * ingress) what tells of a loss, and not of overtaking alone (order.h): docs/design/tagger.md.
 *
 * The rule of a flow is what the library left at the socket; where in the flow a packet lies, and whether it is sent
 * for the first time, is asked of the socket itself: a program at egress runs within TCP's own call, before TCP moves
 * snd_nxt. So of most flows it keeps nothing. It must therefore be at the device that the socket's packets reach first
 * without a queue in between.
 * Invariant: every packet goes on, whatever happens here; one of a socket without a rule goes as it is; a SACK is never
 * made to name a byte that none had named.
 */
#include <stdint.h>

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "order.h"
#include "packet.h"
#include "rule.h"
#include "sack.h"

#define NS_PER_US 1000

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

/* Of connections whose packets may overtake each other: made when one leaves priority 0. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TAGGER_COUNTS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, uint64_t);
} counts SEC(".maps");

_Static_assert(TAGGER_JUDGED == ORDER_PRIORITIES, "the policy says of each priority what proves a loss of it");

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

/* The position of a sequence number. */
static __always_inline uint64_t position_of(const struct bpf_tcp_sock *tcp, uint32_t seq)
{
	return tcp->bytes_acked + (uint64_t)(int64_t)(int32_t)(seq - tcp->snd_una);
}

/* How long nothing moves before new data probes: less than TCP itself waits (RFC 8985, 7.2: twice that). */
static __always_inline uint64_t hold_ns_of(const struct bpf_tcp_sock *tcp)
{
	return (uint64_t)tcp->srtt_us / 8 * NS_PER_US;
}

/*
 * Of a packet with a place in the stream, where something has a rule or had one: most flows never get here. A flow that
 * never left priority 0 has nothing that could be overtaken, and no order.
 */
static __noinline uint32_t priority_of(struct __sk_buff *skb, const struct packet *packet,
				       const struct tagger_policy *rules, struct bpf_sock *sk,
				       struct tagger_socket *told)
{
	const struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);
	struct order *order = told->has_no_order ? 0 : bpf_sk_storage_get(&orders, sk, 0, 0);
	uint64_t position, unacked;
	uint32_t first, priority;
	int is_stalled;

	if (!tcp)
		return 0;
	position = position_of(tcp, packet->seq);
	unacked = tcp->bytes_acked;
	first = tcp->snd_una - (uint32_t)unacked;
	if (order)
		order_begin(order, first);
	if ((int32_t)(packet->seq - tcp->snd_nxt) < 0)
		return order ? (uint32_t)order_send_again(order, rules->proves, unacked, position,
							  position_of(tcp, tcp->snd_nxt))
			     : 0;
	priority = priority_at(rules->threshold_bytes, rules->priorities, told, position + middle_of(skb, packet));
	if (!order && priority) {
		order = bpf_sk_storage_get(&orders, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		told->has_no_order = 0;
		if (order)
			order_begin(order, first);
	}
	if (!order)
		return priority;
	is_stalled = order->gap == unacked && order_is_stalled(order, unacked, bpf_ktime_get_ns(), hold_ns_of(tcp));
	return (uint32_t)order_send(order, rules->proves, unacked, position, priority, is_stalled);
}

/*
 * ACKs go first (QCLIMB 3.2.3), on any path where priorities are pinned to paths. What is sent again goes by order.h,
 * and a FIN has its place in the stream: neither must overtake what comes before.
 */
static __always_inline void tag(struct __sk_buff *skb, const struct packet *packet, const struct tagger_policy *rules,
				struct bpf_sock *sk, struct tagger_socket *told)
{
	uint32_t priority = 0;
	uint8_t dscp = rules->rest_dscp;

	if (told->before.start == TAGGER_BY_KERNEL && packet->dscp)
		return; /* the application's own DSCP */
	if (packet->payload_bytes || packet->tcp_flags & TCP_FIN) {
		if (!told->has_no_order || told->now.start != UINT64_MAX) /* else all goes first, as always before */
			priority = priority_of(skb, packet, rules, sk, told);
		dscp = qclimb_dscp_of(rules->dscp, rules->priorities, priority);
	}
	mark_as(skb, packet, priority, dscp);
}

/* The handshake goes first: SYN, and the SYN-ACK that a listener in scope sends. */
static __noinline int tag_handshake(struct __sk_buff *skb, const struct packet *packet,
				    const struct tagger_policy *rules, struct bpf_sock *sk)
{
	struct bpf_sock *own;

	note_path(skb, packet);
	if (packet->dscp)
		return 0;
	own = packet->tcp_flags & TCP_ACK ? bpf_get_listener_sock(sk) : bpf_sk_fullsock(sk);
	if (own && is_by_kernel(bpf_sk_storage_get(&flows, own, 0, 0)))
		mark_as(skb, packet, 0, rules->rest_dscp);
	return 0;
}

/* --- what arrives */

/* The connection that the packet comes in for, to be released. */
static __always_inline struct bpf_sock *receiver_of(struct __sk_buff *skb, const struct packet *packet)
{
	struct bpf_sock_tuple of = { 0 };
	const uint32_t addresses =
		packet->network + (packet->is_ipv6 ? offsetof(struct ipv6hdr, saddr) : offsetof(struct iphdr, saddr));

	if (packet->is_ipv6) {
		if (bpf_skb_load_bytes(skb, addresses, &of.ipv6, 32) ||
		    bpf_skb_load_bytes(skb, packet->transport, &of.ipv6.sport, 4))
			return 0;
		return bpf_sk_lookup_tcp(skb, &of, sizeof(of.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (bpf_skb_load_bytes(skb, addresses, &of.ipv4, 8) ||
	    bpf_skb_load_bytes(skb, packet->transport, &of.ipv4.sport, 4))
		return 0;
	return bpf_sk_lookup_tcp(skb, &of, sizeof(of.ipv4), BPF_F_CURRENT_NETNS, 0);
}

/* Hides what the SACK tells of what was only overtaken. */
static __always_inline void filter(struct __sk_buff *skb, const struct packet *packet,
				   const struct tagger_policy *rules, struct options *options, struct bpf_sock *sk)
{
	struct order *order = bpf_sk_storage_get(&orders, sk, 0, 0);
	const struct bpf_tcp_sock *tcp = order ? bpf_tcp_sock(sk) : 0;
	struct order_block blocks[ORDER_BLOCKS];
	uint64_t near, acked, proven, left;
	int has_cut, has_told;

	if (!order || !tcp)
		return;
	near = tcp->bytes_acked;
	acked = order_position(order, near, packet->ack);
	read_blocks(options, order, near, blocks);
	proven = order_proven(order, rules->proves, acked, blocks);
	left = order_show(order, acked, proven, blocks, options->blocks, &has_cut, &has_told);
	if (has_cut)
		order_hide(order, acked, bpf_ktime_get_ns());
	if (has_cut || has_told) {
		put_blocks(options, order, blocks, left);
		write_options(skb, packet, options);
	}
	count(has_cut ? TAGGER_HIDDEN : TAGGER_SHOWN);
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
	struct tagger_socket *told = own ? bpf_sk_storage_get(&flows, own, 0, 0) : 0;
	struct packet packet;

	if (!rules || !rules->priorities || skb->ingress_ifindex)
		return TC_ACT_UNSPEC;
	if ((rules->flags & TAGGER_SCOPED && own && !told) || !packet_read(skb, &packet))
		return TC_ACT_UNSPEC;
	if (packet.tcp_flags & TCP_SYN) {
		if (sk)
			tag_handshake(skb, &packet, rules, sk);
		return TC_ACT_UNSPEC;
	}
	if (own && told)
		tag(skb, &packet, rules, own, told);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	const struct tagger_policy *rules = ONLY(&policy);
	struct options options;
	struct packet packet;
	struct bpf_sock *sk;

	if (!rules || !rules->priorities || !(rules->flags & TAGGER_FILTER) || is_without_options(skb) ||
	    !packet_read(skb, &packet) || packet.tcp_flags & TCP_SYN || !find_sack(skb, &packet, &options))
		return TC_ACT_UNSPEC;
	sk = receiver_of(skb, &packet);
	if (sk) {
		filter(skb, &packet, rules, &options, sk);
		bpf_sk_release(sk);
	}
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
