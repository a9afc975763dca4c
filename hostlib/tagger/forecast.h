/*
 * The forest's bounds of a flow's size in the kernel (Linux 5.17, bpf_loop): forest.h's step and join, over tables that
 * hostd checked and laid out (hostlib/hostd/forecast.py mirrors `struct kernel_forest`). For BPF only.
 *
 * All trees one after another, and each by itself: forest.h's 128 walks in step would fill a program's stack.
 * Invariant: no walk leaves the tables, whatever lies in them.
 */
#ifndef QCLIMB_TAGGER_FORECAST_H
#define QCLIMB_TAGGER_FORECAST_H

#include <qclimb/forest.h>

#include "stream.h"

#define KERNEL_NODES (1u << 18) /* a power of two, for the verifier; 4 MiB, taken only while there is a model */

struct kernel_forest {
	uint32_t trees, depth, features, reserved;
	uint8_t feature_id[QCLIMB_MAX_FEATURES];
	uint32_t root[QCLIMB_MAX_TREES];
	struct qclimb_walk_node node[KERNEL_NODES];
	struct qclimb_leaf leaf[KERNEL_NODES];
};

struct forest_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct kernel_forest));
};

/* The forest in force; none: empty. Another one is put there in one step. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__array(values, struct forest_map);
} forests SEC(".maps");

struct forest_walk {
	const struct kernel_forest *forest;
	uint64_t value[QCLIMB_MAX_FEATURES]; /* by feature */
	uint32_t row[QCLIMB_MAX_FEATURES]; /* biased keys, by column */
	struct qclimb_forecast forecast;
};

static long key_of_column(uint32_t column, struct forest_walk *walk)
{
	const uint32_t at = column & (QCLIMB_MAX_FEATURES - 1);
	const uint32_t feature = walk->forest->feature_id[at] & (QCLIMB_MAX_FEATURES - 1);

	walk->row[at] = qclimb_biased_key(qclimb_float_key_of_u64(walk->value[feature]));
	return 0;
}

static long walk_tree(uint32_t tree, struct forest_walk *walk)
{
	const struct kernel_forest *forest = walk->forest;
	uint32_t at = forest->root[tree & (QCLIMB_MAX_TREES - 1)] & (KERNEL_NODES - 1);

	for (uint32_t step = 0; step < QCLIMB_MAX_DEPTH; step++) {
		if (step >= forest->depth)
			break;
		at = qclimb_forest_step(forest->node[at], walk->row) & (KERNEL_NODES - 1);
	}
	qclimb_forecast_join(&walk->forecast, &forest->leaf[at]);
	return 0;
}

/* Asks the forest, where there is one, about the flow that began. */
static __noinline int forecast_flow(struct stream *stream)
{
	struct forest_walk walk = { 0 };
	const uint32_t zero = 0;
	uint64_t lower, upper;
	void *map = bpf_map_lookup_elem(&forests, &zero);

	walk.forest = map ? bpf_map_lookup_elem(map, &zero) : 0;
	if (!walk.forest || !walk.forest->trees)
		return 0;
	walk.value[QCLIMB_START_US] = start_us_of(stream);
	walk.value[QCLIMB_GAP_US] = stream->gap_us;
	for (int i = 0; i < QCLIMB_LAST_SIZES; i++)
		walk.value[QCLIMB_LAST_SIZE_BYTES + i] = stream->last_size_bytes[i];
	walk.value[QCLIMB_SERVICE_PORT] = stream->role ? stream->local_port : stream->peer_port;
	walk.value[QCLIMB_ROLE] = stream->role;
	walk.value[QCLIMB_PEER_ADDR] = stream->peer_number;
	walk.value[QCLIMB_LOCAL_ADDR] = stream->local_number;
	walk.value[QCLIMB_FIRST_WRITE_BYTES] = stream->first_write_bytes;
	qclimb_forecast_start(&walk.forecast);
	bpf_loop(walk.forest->features, key_of_column, &walk, 0);
	bpf_loop(walk.forest->trees, walk_tree, &walk, 0);
	lower = qclimb_key_to_bytes(walk.forecast.lower_key, 0);
	upper = qclimb_key_to_bytes(walk.forecast.upper_key, 1);
	qclimb_footprint_foretell(&stream->footprint, lower, upper);
	return 0;
}

#endif
