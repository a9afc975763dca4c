/* The core as a shared library for the tests here: each header's functions under a name that ctypes finds. */
#include <stdio.h>

#include <qclimb/footprint.h>
#include <qclimb/lengths.h>
#include <qclimb/model.h>
#include <qclimb/policy.h>
#include <qclimb/propose.h>
#include <qclimb/record.h>
#include <qclimb/wire.h>

uint32_t probe_priority(const uint64_t *threshold_bytes, uint32_t priorities, uint64_t lower, uint64_t upper,
			uint64_t slack, uint64_t sent_bytes, uint64_t demotion_bytes)
{
	const struct qclimb_bounds bounds = { lower, upper, slack };

	return qclimb_priority(threshold_bytes, priorities, &bounds, sent_bytes, demotion_bytes);
}

uint64_t probe_next_change(const uint64_t *threshold_bytes, uint32_t priorities, uint64_t lower, uint64_t upper,
			   uint64_t slack, uint64_t sent_bytes, uint64_t footprint_bytes)
{
	const struct qclimb_bounds bounds = { lower, upper, slack };

	return qclimb_next_change(threshold_bytes, priorities, &bounds, sent_bytes, footprint_bytes);
}

uint32_t probe_crc32(const void *bytes, size_t len)
{
	return qclimb_crc32(bytes, len);
}

int probe_policy_verify(const void *bytes, size_t len)
{
	struct qclimb_policy policy; /* aligned, as a shim has it */

	if (len <= sizeof(policy))
		__builtin_memcpy(&policy, bytes, len);
	return qclimb_policy_verify(&policy, len);
}

/* The policy's fields as the struct has them, and what the rule says: priorities[i] at sent_bytes[i] of a flow written
 * in one call. */
int probe_policy_use(const void *bytes, size_t len, uint64_t asked_bytes, const uint64_t *sent_bytes, size_t count,
		     uint32_t *priorities, uint8_t *tos)
{
	struct qclimb_policy policy;
	struct qclimb_footprint flow;
	struct qclimb_flow_rule rule;

	if (probe_policy_verify(bytes, len))
		return -1;
	__builtin_memcpy(&policy, bytes, len);
	qclimb_footprint_start(&flow);
	qclimb_footprint_ask(&flow, 0, asked_bytes, 0);
	rule = qclimb_flow_rule_of(&policy, &flow);
	for (size_t i = 0; i < count; i++) {
		priorities[i] = qclimb_flow_priority(&policy, &rule, sent_bytes[i]);
		tos[i] = qclimb_tos(qclimb_dscp_of(policy.dscp, policy.priorities, priorities[i]), 0);
	}
	return 0;
}

size_t probe_model_memory_bytes(const void *bytes, size_t len)
{
	return qclimb_model_memory_bytes(bytes, len);
}

/* Loads, then answers `rows` rows of QCLIMB_MAX_FEATURES keys. 0 or -errno. */
int probe_predict_keys(const void *bytes, size_t len, void *memory, size_t memory_bytes, const int32_t *row_key,
		       size_t rows, int32_t *lower_key, int32_t *upper_key)
{
	struct qclimb_forest forest;
	const int error = qclimb_model_load(bytes, len, memory, memory_bytes, &forest);

	for (size_t i = 0; !error && i < rows; i++) {
		const struct qclimb_forecast forecast =
			qclimb_forest_predict(&forest, row_key + i * QCLIMB_MAX_FEATURES);

		lower_key[i] = forecast.lower_key;
		upper_key[i] = forecast.upper_key;
	}
	return error;
}

/* The same from features as a shim has them, QCLIMB_FEATURES a row; bounds [rows][2] in bytes. */
int probe_predict_bytes(const void *bytes, size_t len, void *memory, size_t memory_bytes, const uint64_t *value,
			size_t rows, uint64_t *bounds)
{
	struct qclimb_forest forest;
	const int error = qclimb_model_load(bytes, len, memory, memory_bytes, &forest);

	for (size_t i = 0; !error && i < rows; i++)
		qclimb_forest_bounds(&forest, value + i * QCLIMB_FEATURES, &bounds[2 * i], &bounds[2 * i + 1]);
	return error;
}

int32_t probe_float_key_of_u64(uint64_t value)
{
	return qclimb_float_key_of_u64(value);
}

uint64_t probe_key_to_bytes(int32_t key, int up)
{
	return qclimb_key_to_bytes(key, up);
}

uint32_t probe_candidates(const uint8_t *head, uint32_t head_bytes, uint64_t size_bytes, struct qclimb_candidate *found)
{
	return qclimb_length_candidates(head, head_bytes, size_bytes, found);
}

uint32_t probe_tags(const uint8_t *head, uint32_t head_bytes, struct qclimb_tag *found)
{
	return qclimb_length_tags(head, head_bytes, found);
}

/* Of one message. rule: a struct qclimb_length_rule. */
uint64_t probe_size_of_message(const void *rule_bytes, const uint8_t *head, uint32_t head_bytes)
{
	struct qclimb_length_rule rule;

	memcpy(&rule, rule_bytes, sizeof(rule));
	return qclimb_length_rule_holds(&rule) ? qclimb_length_foretell(&rule, head, head_bytes) : 0;
}

/* By entry `index` of a file; 0: it says nothing. -errno of a file that is none, as a number above 2^63. */
uint64_t probe_foretell(const void *file, size_t len, uint32_t index, const uint8_t *head, uint32_t head_bytes)
{
	const int entries = qclimb_lengths_verify(file, len);
	struct qclimb_length_entry entry;
	struct qclimb_length_rule rule;

	if (entries < 0)
		return (uint64_t)(int64_t)entries;
	entry = qclimb_length_entry_at(file, index);
	rule = qclimb_length_rule_of(&entry);
	return qclimb_length_walk(&rule, head, head_bytes);
}
