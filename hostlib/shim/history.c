#include "history.h"

#include <string.h>

#include "process.h"

#define SETS 512u
#define WAYS 4u
#define GAP_MAX_US UINT64_C(1000000000)

struct past {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t end_ns;
	_Atomic uint32_t sizes[QCLIMB_LAST_SIZES]; /* newest first, packed */
};

static struct past table[SETS][WAYS];

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ (x >> 29);
}

static uint64_t key_of(const struct connection *connection)
{
	uint64_t half[2];
	const uint16_t service_port = connection->role ? connection->local_port : connection->peer_port;

	memcpy(half, connection->peer_addr, sizeof(half));
	return mix(mix(mix(half[0]) + half[1]) + service_port * 2u + connection->role) | 1;
}

static struct past *find(uint64_t key)
{
	for (uint32_t way = 0; way < WAYS; way++)
		if (atomic_load_explicit(&table[key >> 8 & (SETS - 1)][way].key, memory_order_relaxed) == key)
			return &table[key >> 8 & (SETS - 1)][way];
	return NULL;
}

void history_recall(struct connection *connection)
{
	struct past *past = find(key_of(connection));
	struct flow_facts *facts = &connection->record;
	uint64_t end_ns, gap_us = GAP_MAX_US;

	memset(facts->last_sizes, 0, sizeof(facts->last_sizes));
	if (past) {
		end_ns = atomic_load_explicit(&past->end_ns, memory_order_relaxed);
		gap_us = connection->start_ns > end_ns ? (connection->start_ns - end_ns) / QCLIMB_NS_PER_US : 0;
		for (int i = 0; i < QCLIMB_LAST_SIZES; i++)
			facts->last_sizes[i] = atomic_load_explicit(&past->sizes[i], memory_order_relaxed);
	}
	facts->gap_us = (uint32_t)(gap_us < GAP_MAX_US ? gap_us : GAP_MAX_US);
}

void history_remember(const struct connection *connection, uint64_t size_bytes)
{
	const uint64_t key = key_of(connection);
	struct past *past = find(key);

	if (!past) {
		past = &table[key >> 8 & (SETS - 1)][0];
		for (uint32_t way = 1; way < WAYS; way++) {
			struct past *other = &table[key >> 8 & (SETS - 1)][way];

			if (atomic_load_explicit(&other->end_ns, memory_order_relaxed) <
			    atomic_load_explicit(&past->end_ns, memory_order_relaxed))
				past = other;
		}
		for (int i = 0; i < QCLIMB_LAST_SIZES; i++)
			atomic_store_explicit(&past->sizes[i], 0, memory_order_relaxed);
		atomic_store_explicit(&past->key, key, memory_order_relaxed);
	}
	for (int i = QCLIMB_LAST_SIZES - 1; i > 0; i--)
		atomic_store_explicit(&past->sizes[i], atomic_load_explicit(&past->sizes[i - 1], memory_order_relaxed),
				      memory_order_relaxed);
	atomic_store_explicit(&past->sizes[0], size_pack(size_bytes), memory_order_relaxed);
	atomic_store_explicit(&past->end_ns, connection->last_write_ns, memory_order_relaxed);
}
