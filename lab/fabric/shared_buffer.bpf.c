/*
 * One buffer per switch port, shared by its queues with dynamic thresholds, as switch ASICs do (Choudhury and Hahne,
 * 1998; SONiC's BUFFER_PROFILE dynamic_th), and the choice of the queue by DSCP.
 *
 * `enqueue` runs at a port's egress before its qdisc, `dequeue` at the other end of the cable, after the shaper has let
 * the packet go; in between the packet occupies the port. The queue travels in tc_index, which veth leaves alone, so a
 * packet is counted out of the queue that it was counted into although the map may have changed meanwhile.
 * Invariant: occupancy_bytes is the sum of the queues' bytes, and 0 on an idle port.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define QUEUES 8
#define FIRST_IFINDEX 1000 /* topology.py */
#define PORTS 1024
#define CONTROL_QUEUE 7 /* frames that are not IPv4: a switch's own */
#define QUEUE_MARK 0x40 /* in tc_index: 0x40 + queue; anything else was not counted in */

struct port_config { /* bpf.py writes it; one per switch port, key ifindex - FIRST_IFINDEX */
	__u32 total_bytes;
	__u32 reserved_bytes[QUEUES];
	__s32 dynamic_th[QUEUES];    /* threshold = reserved + 2^dynamic_th x free */
	__u32 ecn_min_bytes[QUEUES];  /* WRED by the queue's bytes now (no average); below it no mark */
	__u32 ecn_max_bytes[QUEUES];  /* 0 = never marks; from it on every packet */
	__u32 ecn_percent[QUEUES];    /* chance of a mark just below max */
	__u32 class_of_queue[QUEUES]; /* tc handle: skb->priority */
	__u8 queue_of_dscp[64];
};

struct queue_state {
	__u64 queued_bytes, packets, bytes, dropped_packets, dropped_bytes, marked_packets, peak_bytes;
};

struct port_state {
	__u64 occupancy_bytes, peak_bytes;
	struct queue_state queue[QUEUES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, struct port_config);
} configs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, struct port_state);
} states SEC(".maps");

static __u32 queue_of(struct __sk_buff *skb, const struct port_config *config)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if (skb->protocol != bpf_htons(ETH_P_IP) || (void *)(ip + 1) > end)
		return CONTROL_QUEUE;
	return config->queue_of_dscp[ip->tos >> 2 & 63] & (QUEUES - 1);
}

static __u64 threshold(const struct port_config *config, __u32 queue, __u64 free_bytes)
{
	__s32 th = config->dynamic_th[queue];
	__u64 share = th >= 0 ? free_bytes << (th & 15) : free_bytes >> (-th & 15);

	return config->reserved_bytes[queue] + share;
}

static int marks(const struct port_config *config, __u32 queue, __u64 bytes)
{
	__u64 low = config->ecn_min_bytes[queue], high = config->ecn_max_bytes[queue];

	if (!high || bytes <= low)
		return 0;
	if (bytes >= high)
		return 1;
	/* chance = percent / 100 x (bytes - low) / (high - low), against 32 random bits; 100 x 2^32 / 100 fits */
	__u64 scale = ((__u64)config->ecn_percent[queue] << 32) / 100;

	return bpf_get_prandom_u32() < scale / (high - low) * (bytes - low);
}

SEC("classifier")
int enqueue(struct __sk_buff *skb)
{
	__u32 key = skb->ifindex - FIRST_IFINDEX;
	struct port_config *config = bpf_map_lookup_elem(&configs, &key);
	struct port_state *state = bpf_map_lookup_elem(&states, &key);

	if (!config || !state)
		return TC_ACT_UNSPEC;
	__u32 queue = queue_of(skb, config) & (QUEUES - 1);
	struct queue_state *counted = &state->queue[queue];
	__u64 occupancy = state->occupancy_bytes, len = skb->len;
	__u64 free_bytes = occupancy < config->total_bytes ? config->total_bytes - occupancy : 0;

	if (len > free_bytes || counted->queued_bytes + len > threshold(config, queue, free_bytes)) {
		__sync_fetch_and_add(&counted->dropped_packets, 1);
		__sync_fetch_and_add(&counted->dropped_bytes, len);
		return TC_ACT_SHOT;
	}
	if (marks(config, queue, counted->queued_bytes + len) && bpf_skb_ecn_set_ce(skb) == 1)
		__sync_fetch_and_add(&counted->marked_packets, 1);
	__sync_fetch_and_add(&state->occupancy_bytes, len);
	__sync_fetch_and_add(&counted->queued_bytes, len);
	if (occupancy + len > state->peak_bytes)
		state->peak_bytes = occupancy + len;
	if (counted->queued_bytes > counted->peak_bytes)
		counted->peak_bytes = counted->queued_bytes;
	skb->priority = config->class_of_queue[queue];
	skb->tc_classid = QUEUE_MARK + queue; /* the kernel makes tc_index of it after TC_ACT_OK */
	return TC_ACT_OK;
}

SEC("classifier")
int dequeue(struct __sk_buff *skb)
{
	__u32 key = (skb->ifindex ^ 1) - FIRST_IFINDEX;
	struct port_state *state = bpf_map_lookup_elem(&states, &key);
	__u32 mark = skb->tc_index;

	if (!state || mark < QUEUE_MARK || mark >= QUEUE_MARK + QUEUES)
		return TC_ACT_UNSPEC;
	struct queue_state *counted = &state->queue[(mark - QUEUE_MARK) & (QUEUES - 1)];
	__u64 len = skb->len;

	__sync_fetch_and_add(&state->occupancy_bytes, -len);
	__sync_fetch_and_add(&counted->queued_bytes, -len);
	__sync_fetch_and_add(&counted->packets, 1);
	__sync_fetch_and_add(&counted->bytes, len);
	return TC_ACT_UNSPEC; /* others may look at the packet too */
}

char _license[] SEC("license") = "GPL";
