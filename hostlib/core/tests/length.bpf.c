/*
 * A learned rule as the kernel's verifier meets it: a program that foretells the size of the message which a packet's
 * bytes begin. Built by `make check`, loaded by tests/core where the machine lets it.
 */
#include <stdint.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include <qclimb/length.h>

struct foretold {
	struct qclimb_length_rule rule;
	uint64_t size_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct foretold);
} foretold SEC(".maps");

SEC("tc")
int size_of_message(struct __sk_buff *packet)
{
	/* Shown bytes and room behind: a number that begins within them may be read beyond where they end. */
	uint8_t head[QCLIMB_LENGTH_HEAD_BYTES + 8] = { 0 };
	const uint32_t zero = 0;
	struct foretold *of = bpf_map_lookup_elem(&foretold, &zero);
	struct qclimb_length_rule rule;
	uint32_t len = packet->len;

	if (!of || len < 1)
		return 0;
	if (len > QCLIMB_LENGTH_HEAD_BYTES)
		len = QCLIMB_LENGTH_HEAD_BYTES;
	if (bpf_skb_load_bytes(packet, 0, head, len))
		return 0;
	rule = of->rule;
	if (!qclimb_length_rule_holds(&rule))
		return 0;
	/* The verifier follows no sum: offset + width <= 64 says nothing to it of an offset alone. */
	rule.offset &= QCLIMB_LENGTH_HEAD_BYTES - 1;
	of->size_bytes = qclimb_length_foretell(&rule, head, len);
	return 1;
}

char _license[] SEC("license") = "Dual MIT/GPL";
