#include "life/forecast.h"

#include <qclimb/crc32.h>
#include <string.h>

#include "life/history.h"
#include "socket/locals.h"
#include "base/process.h"

enum feature {
	START_US,
	GAP_US,
	LAST_SIZE_1,
	LAST_SIZE_5 = 6,
	SERVICE_PORT,
	ROLE,
	PEER_ADDR,
	LOCAL_ADDR,
	FIRST_WRITE_BYTES
};

/*
 * The low 24 bits of IPv4, or of IPv6's crc32: as many as a float32 holds exactly, else the last octet, which tells the
 * hosts of a rack apart, would be rounded away. Addresses are kept as IPv6, IPv4 v4-mapped.
 */
static uint32_t address_number(const uint8_t *address)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (memcmp(address, mapped, sizeof(mapped)))
		return qclimb_crc32(address, 16) & 0xffffff;
	return (uint32_t)address[13] << 16 | (uint32_t)address[14] << 8 | address[15];
}

static bool feature_of(uint8_t id, const struct connection *connection, uint64_t *value)
{
	const struct flow_facts *facts = &connection->facts;

	switch (id) {
	case START_US:
		*value = (connection->start_ns - qclimb_process.start_ns) / QCLIMB_NS_PER_US;
		return true;
	case GAP_US:
		*value = facts->gap_us;
		return true;
	case LAST_SIZE_1 ... LAST_SIZE_5:
		*value = size_unpack(facts->last_sizes[id - LAST_SIZE_1]);
		return true;
	case SERVICE_PORT:
		*value = connection->role ? connection->local_port : connection->peer_port;
		return true;
	case ROLE:
		*value = connection->role;
		return true;
	case PEER_ADDR:
		*value = address_number(connection->peer_addr);
		return true;
	case LOCAL_ADDR:
		*value = address_number(locals_at(connection->local_place));
		return true;
	case FIRST_WRITE_BYTES:
		*value = facts->first_write_bytes;
		return true;
	default:
		return false;
	}
}

bool forecast(const struct qclimb_forest *forest, const struct connection *connection, uint64_t *lower_bytes,
	      uint64_t *upper_bytes)
{
	int32_t row[QCLIMB_MAX_FEATURES] = { 0 };
	struct qclimb_forecast keys;
	uint64_t value, lower, upper;

	for (uint32_t i = 0; i < forest->features && i < QCLIMB_MAX_FEATURES; i++) {
		if (!feature_of(forest->feature_id[i], connection, &value))
			return false;
		row[i] = qclimb_float_key_of_u64(value);
	}
	keys = qclimb_forest_predict(forest, row);
	lower = qclimb_key_to_bytes(keys.lower_key, 0);
	upper = qclimb_key_to_bytes(keys.upper_key, 1);
	if (lower > upper)
		return false;
	*lower_bytes = lower;
	*upper_bytes = upper;
	return true;
}
