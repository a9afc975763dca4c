/*
 * The C side of test_layout.py: what the core's headers read in bytes that Python wrote, field by field, and what they
 * answer. Built as a shared library and called by ctypes; knows nothing of the expected values.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qclimb/forest.h>
#include <qclimb/model.h>
#include <qclimb/policy.h>
#include <qclimb/record.h>

#define EXPORT __attribute__((visibility("default")))

static char text[16384];
static size_t used;

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
}

static void say_bytes(const char *name, const uint8_t *byte, size_t count)
{
	say("\"%s\": \"", name);
	for (size_t i = 0; i < count; i++)
		say("%02x", byte[i]);
	say("\", ");
}

static void say_numbers(const char *name, const uint64_t *number, size_t count)
{
	say("\"%s\": [", name);
	for (size_t i = 0; i < count; i++)
		say("%s%" PRIu64, i ? ", " : "", number[i]);
	say("], ");
}

#define NUMBER(field) say("\"%s\": %" PRIu64 ", ", #field, (uint64_t)of->field)
#define BYTES(field) say_bytes(#field, (const uint8_t *)of->field, sizeof(of->field))
#define NUMBERS(field) say_numbers(#field, of->field, sizeof(of->field) / sizeof(of->field[0]))

static const char *said(size_t struct_bytes)
{
	say("\"sizeof\": %zu}", struct_bytes);
	return text;
}

/* The fields of a policy file as JSON, unverified. */
EXPORT const char *policy_fields(const void *bytes)
{
	const struct qclimb_policy *of = bytes;

	used = 0;
	say("{");
	NUMBER(magic), NUMBER(version), NUMBER(struct_bytes), NUMBER(generation), NUMBER(mode), NUMBER(flags);
	NUMBER(priorities), NUMBER(flow_gap_us), NUMBER(promote_wait_us), NUMBER(deadline_step_us), NUMBER(slack_bytes);
	NUMBER(small_coflow_bytes), NUMBER(model_generation), NUMBERS(threshold_bytes), BYTES(dscp), NUMBER(reserved1);
	NUMBER(crc32);
	return said(sizeof(*of));
}

EXPORT int policy_verify(const void *bytes, size_t len)
{
	return qclimb_policy_verify(bytes, len);
}

EXPORT void policy_default(void *bytes)
{
	qclimb_policy_default(bytes);
}

/* The fields of a datagram's header as JSON. */
EXPORT const char *header_fields(const void *bytes)
{
	const struct qclimb_record_header *of = bytes;

	used = 0;
	say("{");
	NUMBER(magic), NUMBER(version), NUMBER(record_bytes), NUMBER(count), NUMBER(dropped),
		NUMBER(hostlib_generation);
	return said(sizeof(*of));
}

/* The fields of one record as JSON. */
EXPORT const char *record_fields(const void *bytes)
{
	const struct qclimb_record *of = bytes;

	used = 0;
	say("{");
	NUMBER(start_ns), NUMBER(last_write_ns), NUMBER(drained_ns), NUMBER(size_bytes), NUMBER(lower_bytes);
	NUMBER(upper_bytes), NUMBER(first_write_bytes), NUMBER(footprint_lower_bytes), NUMBER(start_us), NUMBER(gap_us);
	NUMBERS(last_size_bytes), NUMBER(connection), NUMBER(wait_ns), NUMBER(pid), NUMBER(flow_index);
	NUMBER(promotions), NUMBER(demotions), BYTES(local_addr), BYTES(peer_addr), NUMBER(local_port),
		NUMBER(peer_port);
	NUMBER(role), NUMBER(mode), NUMBER(last_priority), NUMBER(flags), BYTES(comm);
	return said(sizeof(*of));
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

/* Limits and numbers that both sides spell out. */
EXPORT const char *constants(void)
{
	used = 0;
	say("{\"max_priorities\": %d, \"max_promote_wait_us\": %u, ", QCLIMB_MAX_PRIORITIES,
	    QCLIMB_MAX_PROMOTE_WAIT_US);
	say("\"max_trees\": %d, \"max_depth\": %d, \"max_nodes\": %u, ", QCLIMB_MAX_TREES, QCLIMB_MAX_DEPTH,
	    QCLIMB_MAX_NODES);
	say("\"features\": %d, \"service_port\": %d, ", QCLIMB_FEATURES, QCLIMB_SERVICE_PORT);
	say("\"modes\": [%d, %d, %d, %d], ", QCLIMB_OFF, QCLIMB_OBSERVE, QCLIMB_PIAS, QCLIMB_FULL);
	say("\"record_flags\": [%d, %d, ", QCLIMB_RECORD_CLOSED, QCLIMB_RECORD_WAIT_RAN_OUT);
	say("%d, %d, ", QCLIMB_RECORD_FOREST, QCLIMB_RECORD_HINT);
	say("%d, %d], ", QCLIMB_RECORD_UNOBSERVED, QCLIMB_RECORD_DEADLINE);
	return said(sizeof(struct qclimb_model_header));
}
