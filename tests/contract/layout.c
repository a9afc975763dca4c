/*
 * The C side of test_layout.py: what the core's headers answer to bytes that Python wrote. Built as a shared library and
 * called by ctypes; knows nothing of the expected values.
 */
#include <stdio.h>
#include <stdlib.h>

#include <qclimb/forest.h>
#include <qclimb/model.h>
#include <qclimb/policy.h>
#include <qclimb/record.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int policy_verify(const void *bytes, size_t len)
{
	return qclimb_policy_verify(bytes, len);
}

EXPORT int shares_path(const void *bytes, uint32_t a, uint32_t b)
{
	return qclimb_policy_shares_path(bytes, a, b);
}

EXPORT void policy_default(void *bytes)
{
	qclimb_policy_default(bytes);
}

/*
 * Loads a model and answers for `rows` flows, each QCLIMB_FEATURES values by id: bounds[2 * row] the lower, [2 * row +
 * 1] the upper, in bytes. Returns what qclimb_model_load() does.
 */
EXPORT int model_bounds(const void *bytes, size_t len, const uint64_t *value, size_t rows, uint64_t *bounds)
{
	const size_t room = qclimb_model_memory_bytes(bytes, len);
	void *memory = malloc(room ? room : 1);
	struct qclimb_forest forest;
	const int error = memory ? qclimb_model_load(bytes, len, memory, room, &forest) : -ENOMEM;

	for (size_t row = 0; !error && row < rows; row++)
		qclimb_forest_bounds(&forest, value + row * QCLIMB_FEATURES, &bounds[2 * row], &bounds[2 * row + 1]);
	free(memory);
	return error;
}

EXPORT int32_t key_of_u64(uint64_t value)
{
	return qclimb_float_key_of_u64(value);
}

EXPORT uint64_t bytes_of_key(int32_t key, int up)
{
	return qclimb_key_to_bytes(key, up);
}

/* Limits and numbers that both sides spell out, as JSON. */
EXPORT const char *constants(void)
{
	static char text[512];

	snprintf(text, sizeof(text),
		 "{\"max_priorities\": %d, \"max_trees\": %d, \"max_depth\": %d, \"max_nodes\": %u, \"features\": %d, "
		 "\"max_features\": %d, \"service_port\": %d, \"last_sizes\": %d, \"modes\": [%d, %d, %d, %d]}",
		 QCLIMB_MAX_PRIORITIES, QCLIMB_MAX_TREES, QCLIMB_MAX_DEPTH, QCLIMB_MAX_NODES, QCLIMB_FEATURES,
		 QCLIMB_MAX_FEATURES, QCLIMB_SERVICE_PORT, QCLIMB_LAST_SIZES, QCLIMB_OFF, QCLIMB_OBSERVE, QCLIMB_PIAS,
		 QCLIMB_FULL);
	return text;
}
