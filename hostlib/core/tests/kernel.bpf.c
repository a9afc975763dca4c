/*
 * The core as the kernel's verifier meets it: a program that computes a packet's priority and DSCP from a policy and a
 * flow in maps. Built by `make check`, loaded by tests/core where the machine lets it. The tagger will be written on
 * these includes.
 */
#include <stdint.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include <qclimb/footprint.h>
#include <qclimb/forest.h>
#include <qclimb/wire.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct qclimb_policy);
} policies SEC(".maps");

struct flow {
	struct qclimb_footprint footprint;
	uint64_t sent_bytes, next_change_bytes;
	uint64_t size_key;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct flow);
} flows SEC(".maps");

SEC("tc")
int priority_of_packet(struct __sk_buff *packet)
{
	const uint32_t zero = 0;
	const struct qclimb_policy *policy = bpf_map_lookup_elem(&policies, &zero);
	struct flow *flow = bpf_map_lookup_elem(&flows, &zero);
	struct qclimb_flow_rule rule;
	uint32_t priority;

	if (!policy || !flow)
		return 0;
	rule = qclimb_flow_rule_of(policy, &flow->footprint);
	priority = qclimb_flow_priority(policy, &rule, flow->sent_bytes);
	flow->next_change_bytes = qclimb_flow_next_change(policy, &rule, flow->sent_bytes);
	flow->size_key = (uint32_t)qclimb_float_key_of_u64(packet->len);
	flow->sent_bytes += packet->len;
	return qclimb_tos(qclimb_dscp_of(policy->dscp, policy->priorities, priority), 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
