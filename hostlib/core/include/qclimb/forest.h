/*
 * Bounds of a flow's size from a random forest: over the trees, the least of the leaves' lower and the greatest of
 * their upper bounds (QCLIMB 3.1 with beta = 1). Knows nothing of files (model.h unpacks them) or of what a feature
 * means. No floating point: a float32 travels as its *key*, the int32 that is ordered as the float is; for x >= 0 the
 * key is the bit pattern itself.
 *
 * All trees are walked in step for exactly `depth` steps, a leaf steps onto itself, and the only thing that depends on
 * the row is an index: no branch to mispredict, and the cache misses of up to QCLIMB_FOREST_LANES walks overlap. A node
 * costs six instructions and 8 bytes.
 * Invariant: in a forest from qclimb_model_load() no walk leaves the table, whatever the row.
 */
#ifndef QCLIMB_FOREST_H
#define QCLIMB_FOREST_H

#include <stdint.h>

#define QCLIMB_MAX_FEATURES 16
#define QCLIMB_MAX_TREES 1024
#define QCLIMB_MAX_DEPTH 32
#define QCLIMB_FOREST_LANES 128 /* trees walked in step; with 10, a cold cache costs half as much again */
#define QCLIMB_MAX_NODES (1u << 24)
#define QCLIMB_KEY_INFINITY 0x7f800000 /* key of +infinity; above it are NaNs */

/*
 * A node as it is walked, 8 bytes. Keys are biased (key ^ 2^31) so that they order as unsigned numbers: the comparison
 * is then a carry.
 */
struct qclimb_walk_node {
	uint32_t threshold; /* biased key */
	uint32_t link; /* child << 8 | feature; the child for keys above the threshold is the one after */
};

/* What a column of a row can be; the model names those that it uses. Whole numbers, as float32. */
enum qclimb_feature {
	QCLIMB_START_US, /* of the flow, since the process started */
	QCLIMB_GAP_US, /* since the history's previous flow ended; at most 1e9 */
	QCLIMB_LAST_SIZE_BYTES, /* the history's last five sizes, newest first; 0 if none */
	QCLIMB_SERVICE_PORT = QCLIMB_LAST_SIZE_BYTES + 5, /* of the listening side */
	QCLIMB_ROLE, /* 1: this side accepted */
	QCLIMB_PEER_ADDR, /* low 24 bits of IPv4, or of IPv6's CRC-32: as many as a float32 holds */
	QCLIMB_LOCAL_ADDR,
	QCLIMB_FIRST_WRITE_BYTES,
	QCLIMB_FEATURES, /* how many there are */
};

struct qclimb_leaf {
	int32_t lower_key, upper_key;
};

struct qclimb_forest {
	uint64_t generation;
	uint32_t trees, depth, nodes, features;
	uint8_t feature_id[QCLIMB_MAX_FEATURES]; /* what row[i] is: an id of the model file */
	const struct qclimb_walk_node *node; /* breadth first over all trees: the roots are nodes 0 to trees - 1 */
	const struct qclimb_leaf *leaf; /* by node; zeros for inner nodes */
};

/* A forecast as keys; qclimb_key_to_bytes() decodes them. */
struct qclimb_forecast {
	int32_t lower_key, upper_key;
};

static inline uint32_t qclimb_biased_key(int32_t key)
{
	return (uint32_t)key ^ 0x80000000u;
}

/* Where a row of biased keys goes from a node. */
static inline uint32_t qclimb_forest_step(struct qclimb_walk_node from, const uint32_t *row)
{
	const uint32_t key = row[from.link & (QCLIMB_MAX_FEATURES - 1)];
	uint32_t next = from.link >> 8;

	next += from.threshold < key;
	return next;
}

/* Before any tree was walked. */
static inline void qclimb_forecast_start(struct qclimb_forecast *forecast)
{
	forecast->lower_key = INT32_MAX;
	forecast->upper_key = INT32_MIN;
}

static inline void qclimb_forecast_join(struct qclimb_forecast *forecast, const struct qclimb_leaf *leaf)
{
	forecast->lower_key = leaf->lower_key < forecast->lower_key ? leaf->lower_key : forecast->lower_key;
	forecast->upper_key = leaf->upper_key > forecast->upper_key ? leaf->upper_key : forecast->upper_key;
}

/* Walks `lanes` trees in step, from the tree `first` on, and joins their leaves to the forecast. */
static inline void qclimb_forest_walk(const struct qclimb_forest *forest, const uint32_t *row, uint32_t first,
				      uint32_t lanes, struct qclimb_forecast *forecast)
{
	const struct qclimb_walk_node *node = forest->node;
	const uint32_t depth = forest->depth < QCLIMB_MAX_DEPTH ? forest->depth : QCLIMB_MAX_DEPTH;
	uint32_t at[QCLIMB_FOREST_LANES];

	if (lanes > QCLIMB_FOREST_LANES)
		lanes = QCLIMB_FOREST_LANES;
	for (uint32_t i = 0; i < lanes; i++)
		at[i] = first + i;
	for (uint32_t step = 0; step < depth; step++)
#pragma GCC unroll 4
		for (uint32_t i = 0; i < lanes; i++)
			at[i] = qclimb_forest_step(node[at[i]], row);
	for (uint32_t i = 0; i < lanes; i++)
		qclimb_forecast_join(forecast, &forest->leaf[at[i]]);
}

/* The forecast for one row of `features` keys, in the order of feature_id. row_key has room for QCLIMB_MAX_FEATURES. */
static inline struct qclimb_forecast qclimb_forest_predict(const struct qclimb_forest *forest, const int32_t *row_key)
{
	struct qclimb_forecast forecast;
	uint32_t row[QCLIMB_MAX_FEATURES];

	for (uint32_t i = 0; i < QCLIMB_MAX_FEATURES; i++)
		row[i] = qclimb_biased_key(row_key[i]);
	qclimb_forecast_start(&forecast);
	for (uint32_t tree = 0; tree < QCLIMB_MAX_TREES && tree < forest->trees; tree += QCLIMB_FOREST_LANES)
		qclimb_forest_walk(forest, row, tree, forest->trees - tree, &forecast);
	return forecast;
}

/* The position of the highest bit set; value > 0. */
static inline uint32_t qclimb_highest_bit(uint64_t value)
{
#ifdef __bpf__ /* clang 14 dies of __builtin_clzll there */
	uint32_t bit = 0;

	for (uint32_t step = 32; step; step >>= 1)
		if (value >> step) {
			value >>= step;
			bit += step;
		}
	return bit;
#else
	return 63u - (uint32_t)__builtin_clzll(value);
#endif
}

/* The key of a whole number as float32, rounded to nearest, ties to even, as the FPU and numpy do. */
static inline int32_t qclimb_float_key_of_u64(uint64_t value)
{
	const uint32_t exponent = value ? qclimb_highest_bit(value) : 0;
	const uint64_t aligned = value << (63 - exponent); /* the highest bit at the top */
	uint64_t mantissa = aligned >> 40; /* 24 bits: 1 and the 23 that the format keeps */
	const uint64_t rest = aligned & ((UINT64_C(1) << 40) - 1);

	mantissa += (rest + (UINT64_C(1) << 39) - 1 + (mantissa & 1)) >> 40;
	/* A mantissa that rounded up to 2^24 carries into the exponent, as it should. */
	return value ? (int32_t)(((exponent + 127) << 23) + (uint32_t)(mantissa - (1u << 23))) : 0;
}

/* The bytes that a key means: rounded down, or up where `up`; below 0 is 0, from 2^64 on UINT64_MAX. */
static inline uint64_t qclimb_key_to_bytes(int32_t key, int up)
{
	const uint32_t exponent = (uint32_t)key >> 23;
	const uint64_t mantissa = ((uint32_t)key & 0x7fffff) | 1u << 23;

	if (key <= 0)
		return 0;
	if (exponent < 127)
		return up ? 1 : 0;
	if (exponent >= 127 + 64)
		return UINT64_MAX;
	if (exponent >= 127 + 23)
		return mantissa << (exponent - 127 - 23);
	return (mantissa >> (127 + 23 - exponent)) + (up && mantissa << (exponent - 127 + 41) ? 1 : 0);
}

/* The forecast in bytes for a flow whose features, all of them by id, are value[QCLIMB_FEATURES]. */
static inline void qclimb_forest_bounds(const struct qclimb_forest *forest, const uint64_t *value,
					uint64_t *lower_bytes, uint64_t *upper_bytes)
{
	int32_t row_key[QCLIMB_MAX_FEATURES];
	struct qclimb_forecast forecast;

	for (uint32_t i = 0; i < QCLIMB_MAX_FEATURES; i++)
		row_key[i] = i < forest->features ? qclimb_float_key_of_u64(value[forest->feature_id[i]]) : 0;
	forecast = qclimb_forest_predict(forest, row_key);
	*lower_bytes = qclimb_key_to_bytes(forecast.lower_key, 0);
	*upper_bytes = qclimb_key_to_bytes(forecast.upper_key, 1);
}

#endif
