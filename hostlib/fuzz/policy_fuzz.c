/*
 * The reader of policy files on any bytes, and the rule on any policy that it lets through.
 *
 * An input is a policy file and, after it, the numbers of a flow. It is read twice: as it is, and with a checksum that
 * fits, for no fuzzer finds a CRC. Whatever is accepted must serve every flow within its tables, and
 * qclimb_flow_next_change() must be the next change.
 */
#include <stdlib.h>
#include <string.h>

#include <qclimb/footprint.h>

#define REQUIRE(holds)                                                                                                 \
	do {                                                                                                           \
		if (!(holds))                                                                                          \
			abort();                                                                                       \
	} while (0)

struct numbers {
	uint64_t sent_bytes, asked_bytes, later_bytes, lower_bytes, upper_bytes, told_bytes;
};

static void serve(const struct qclimb_policy *policy, const struct qclimb_footprint *flow, uint64_t sent_bytes)
{
	const struct qclimb_flow_rule rule = qclimb_flow_rule_of(policy, flow);

	REQUIRE(rule.bounds.lower_bytes <= rule.bounds.upper_bytes);
	for (int change = 0; change < 3 * QCLIMB_MAX_PRIORITIES; change++) {
		const uint32_t priority = qclimb_flow_priority(policy, &rule, sent_bytes);
		const uint64_t next_bytes = qclimb_flow_next_change(policy, &rule, sent_bytes);
		const uint8_t dscp = qclimb_dscp_of(policy->dscp, policy->priorities, priority);

		REQUIRE(priority < policy->priorities);
		REQUIRE(qclimb_priority_of_dscp(policy->dscp, policy->priorities, dscp) == priority);
		REQUIRE(next_bytes > sent_bytes || next_bytes == QCLIMB_UNKNOWN_BYTES);
		/* In the middle and at the last byte before it, nothing has changed. */
		REQUIRE(qclimb_flow_priority(policy, &rule, sent_bytes + (next_bytes - sent_bytes) / 2) == priority ||
			next_bytes - sent_bytes < 2);
		REQUIRE(next_bytes == sent_bytes || qclimb_flow_priority(policy, &rule, next_bytes - 1) == priority);
		if (next_bytes == QCLIMB_UNKNOWN_BYTES)
			return;
		REQUIRE(qclimb_flow_priority(policy, &rule, next_bytes) != priority);
		sent_bytes = next_bytes;
	}
	abort(); /* a flow climbs once through the priorities and sinks once */
}

static void use(const struct qclimb_policy *policy, const struct numbers *numbers)
{
	struct qclimb_footprint flow;

	qclimb_footprint_start(&flow);
	serve(policy, &flow, numbers->sent_bytes);
	qclimb_footprint_ask(&flow, 0, numbers->asked_bytes, 0);
	serve(policy, &flow, numbers->sent_bytes);
	qclimb_footprint_foretell(&flow, numbers->lower_bytes, numbers->upper_bytes);
	serve(policy, &flow, 0);
	serve(policy, &flow, numbers->sent_bytes);
	qclimb_footprint_ask(&flow, numbers->sent_bytes, numbers->later_bytes, 1);
	serve(policy, &flow, numbers->sent_bytes);
	qclimb_footprint_tell(&flow, numbers->told_bytes);
	serve(policy, &flow, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct numbers numbers = { 0 };
	/* Of just this size, so that the sanitizer sees a read past its end; aligned as the reader asks. */
	struct qclimb_policy *policy = malloc(size ? size : 1);
	int error;

	REQUIRE(policy);
	if (size)
		memcpy(policy, data, size);
	error = qclimb_policy_verify(policy, size);
	REQUIRE(error <= 0 && (!error || error >= -4095));
	if (!error)
		use(policy, &numbers);
	if (size >= sizeof(*policy)) {
		const size_t more = size - sizeof(*policy);

		memcpy(&numbers, data + sizeof(*policy), more < sizeof(numbers) ? more : sizeof(numbers));
		policy->crc32 = qclimb_crc32(policy, offsetof(struct qclimb_policy, crc32));
		if (!qclimb_policy_verify(policy, sizeof(*policy)))
			use(policy, &numbers);
	}
	free(policy);
	return 0;
}
