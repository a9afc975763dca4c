/* Walks of small forests whose answer is known, and what a damaged or impossible model file meets. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <qclimb/model.h>

_Static_assert(sizeof(struct qclimb_model_header) == 56, "header");
_Static_assert(sizeof(struct qclimb_node) == 12, "node");

/*
 * Two trees over the columns (service_port, role), written out of order on purpose:
 * A: port <= 100 ? [10, 20] : (role <= 0 ? [30, 40] : [50, 60]);  B: one leaf, [15, 55].
 */
#define NODES 6
static struct model {
	struct qclimb_model_header header;
	int32_t roots[2];
	struct qclimb_node node[NODES];
	int32_t lower[NODES], upper[NODES];
	uint32_t crc32;
} model;

#define MODEL_BYTES (offsetof(struct model, crc32) + 4) /* without the struct's padding */

static uint64_t memory[64];
static struct qclimb_forest forest;

static int32_t key(uint64_t value)
{
	return qclimb_float_key_of_u64(value);
}

static void leaf_is(int32_t at, uint64_t lower_bytes, uint64_t upper_bytes)
{
	model.node[at] = (struct qclimb_node){ INT32_MAX, 0, at };
	model.lower[at] = key(lower_bytes);
	model.upper[at] = key(upper_bytes);
}

static int set_up(void **state)
{
	(void)state;
	memset(&model, 0, sizeof(model));
	model.header = (struct qclimb_model_header){
		.magic = QCLIMB_MODEL_MAGIC,
		.version = 1,
		.header_bytes = sizeof(model.header),
		.generation = 7,
		.trees = 2,
		.depth = 2,
		.nodes = NODES,
		.leaves = NODES,
		.features = 2,
		.feature_id = { QCLIMB_SERVICE_PORT, QCLIMB_ROLE },
	};
	model.roots[0] = 4;
	model.roots[1] = 5;
	model.node[4] = (struct qclimb_node){ key(100), 0, 2 };
	leaf_is(2, 10, 20);
	model.node[3] = (struct qclimb_node){ key(0), 1, 0 };
	leaf_is(0, 30, 40);
	leaf_is(1, 50, 60);
	leaf_is(5, 15, 55);
	return 0;
}

/* Loads `model` with a checksum that fits. */
static int load(void)
{
	model.crc32 = qclimb_crc32(&model, offsetof(struct model, crc32));
	return qclimb_model_load(&model, MODEL_BYTES, memory, sizeof(memory), &forest);
}

static void bounds_are(uint64_t port, uint64_t role, uint64_t lower_bytes, uint64_t upper_bytes)
{
	uint64_t value[QCLIMB_FEATURES] = { 0 }, lower, upper;

	value[QCLIMB_SERVICE_PORT] = port;
	value[QCLIMB_ROLE] = role;
	qclimb_forest_bounds(&forest, value, &lower, &upper);
	assert_bytes(lower, lower_bytes);
	assert_bytes(upper, upper_bytes);
}

static void bounds__least_and_greatest_over_trees(void **state)
{
	(void)state;
	assert_int_equal(load(), 0);
	bounds_are(99, 1, 10, 55);
	bounds_are(100, 1, 10, 55); /* on the split: to the left */
	bounds_are(101, 0, 15, 55);
	bounds_are(101, 1, 15, 60);
	bounds_are(UINT64_MAX, UINT64_MAX, 15, 60);
}

static void load__describes_the_forest(void **state)
{
	(void)state;
	assert_int_equal(load(), 0);
	assert_bytes(forest.generation, 7);
	assert_int_equal(forest.trees, 2);
	assert_int_equal(forest.depth, 2);
	assert_int_equal(forest.nodes, NODES);
	assert_int_equal(forest.feature_id[0], QCLIMB_SERVICE_PORT);
}

static void load__one_leaf_is_a_forest(void **state)
{
	(void)state;
	model.roots[0] = 5;
	model.roots[1] = 0; /* trees of depth 0 */
	model.header.depth = 0;
	assert_int_equal(load(), 0);
	bounds_are(1, 1, 15, 55);
}

/* More trees than lanes, no multiple of them: each kind of group of walks. */
static void predict__any_number_of_trees(void **state)
{
	(void)state;
	for (uint32_t trees = 1; trees <= 3 * QCLIMB_FOREST_LANES + 1; trees++) {
		struct qclimb_walk_node node[3 * QCLIMB_FOREST_LANES + 1];
		struct qclimb_leaf leaf[3 * QCLIMB_FOREST_LANES + 1];
		const int32_t row_key[QCLIMB_MAX_FEATURES] = { 0 };
		const struct qclimb_forest leaves = {
			.trees = trees, .depth = 3, .nodes = trees, .features = 1, .node = node, .leaf = leaf
		};

		for (uint32_t odd = 0; odd < trees; odd++) { /* whichever tree has the extremes, it counts */
			for (uint32_t i = 0; i < trees; i++) {
				node[i] = (struct qclimb_walk_node){ UINT32_MAX, i << 8 };
				leaf[i] = i == odd ? (struct qclimb_leaf){ 1, 9 } : (struct qclimb_leaf){ 4, 5 };
			}
			assert_int_equal(qclimb_forest_predict(&leaves, row_key).lower_key, 1);
			assert_int_equal(qclimb_forest_predict(&leaves, row_key).upper_key, 9);
		}
	}
}

static void load__memory_is_checked(void **state)
{
	const size_t need = qclimb_model_memory_bytes(&model, MODEL_BYTES);

	(void)state;
	assert_int_equal(load(), 0);
	assert_int_equal(need, NODES * 16);
	assert_int_equal(qclimb_model_load(&model, MODEL_BYTES, memory, need, &forest), 0);
	assert_int_equal(qclimb_model_load(&model, MODEL_BYTES, memory, need - 1, &forest), -ENOMEM);
	assert_int_equal(qclimb_model_memory_bytes(&model, 10), 0);
}

static void load__length(void **state)
{
	(void)state;
	load();
	for (size_t len = 0; len < MODEL_BYTES; len++)
		assert_int_equal(qclimb_model_load(&model, len, memory, sizeof(memory), &forest), -EMSGSIZE);
	model.header.trees = QCLIMB_MAX_TREES; /* lengths that the header claims are checked before they are used */
	model.header.nodes = model.header.leaves = QCLIMB_MAX_NODES;
	assert_int_equal(load(), -EMSGSIZE);
}

static void load__kind_version_and_damage(void **state)
{
	(void)state;
	model.header.magic ^= 1;
	assert_int_equal(load(), -EINVAL);
	model.header.magic ^= 1;
	model.header.version++;
	assert_int_equal(load(), -EPROTONOSUPPORT);
	model.header.version--;
	assert_int_equal(load(), 0);
	model.lower[0] ^= 1;
	assert_int_equal(qclimb_model_load(&model, MODEL_BYTES, memory, sizeof(memory), &forest), -EBADMSG);
}

#define REFUSED(change)                                                                                                \
	do {                                                                                                           \
		set_up(state);                                                                                         \
		change;                                                                                                \
		assert_int_equal(load(), -EINVAL);                                                                     \
	} while (0)

static void load__impossible_headers(void **state)
{
	REFUSED(model.header.trees = 0);
	REFUSED(model.header.trees = QCLIMB_MAX_TREES + 1);
	REFUSED(model.header.depth = QCLIMB_MAX_DEPTH + 1);
	REFUSED(model.header.leaves--);
	REFUSED(model.header.nodes = model.header.leaves = 1);
	REFUSED(model.header.nodes = model.header.leaves = UINT32_MAX);
	REFUSED(model.header.features = 0);
	REFUSED(model.header.features = QCLIMB_MAX_FEATURES + 1);
	REFUSED(model.header.feature_id[1] = QCLIMB_FEATURES);
}

static void load__impossible_trees(void **state)
{
	REFUSED(model.header.depth = 1); /* deeper than it says */
	REFUSED(model.roots[0] = -1);
	REFUSED(model.roots[0] = NODES);
	REFUSED(model.roots[1] = 4); /* one tree twice: a node in two trees */
	REFUSED(model.node[4].child = -1);
	REFUSED(model.node[4].child = NODES);
	REFUSED(model.node[4].child = NODES - 1); /* child + 1 is outside */
	REFUSED(model.node[3].child = 3; model.node[3].threshold_key = 5); /* its own child, but no leaf */
	REFUSED(model.node[3].child = 4); /* a cycle */
	REFUSED(model.node[4].feature = 2);
	REFUSED(model.node[4].feature = -1);
	REFUSED(model.node[2].feature = 1); /* a leaf that looks at the row */
	REFUSED(model.node[4].threshold_key = QCLIMB_KEY_INFINITY + 1); /* NaN */
	REFUSED(model.node[4].threshold_key = INT32_MIN);
}

static void load__impossible_bounds(void **state)
{
	REFUSED(model.upper[2] = model.lower[2] - 1);
	REFUSED(model.lower[2] = -1);
	REFUSED(model.upper[2] = QCLIMB_KEY_INFINITY + 1);
}

/* Damage with a checksum that fits, in a heap block of just that size: it loads or not, and then walks stay inside. */
static void load__damaged_bytes_never_lead_outside(void **state)
{
	uint8_t *bytes = malloc(MODEL_BYTES);
	uint32_t random = 1;
	uint32_t crc;
	int loaded = 0;

	(void)state;
	assert_non_null(bytes);
	for (int round = 0; round < 60000; round++) {
		const uint64_t value[QCLIMB_FEATURES] = { random, random, random, random, random, random,
							  random, random, random, random, random, random };
		uint64_t lower, upper;
		uint64_t *exact_memory;
		size_t memory_bytes;

		memcpy(bytes, &model, MODEL_BYTES);
		for (int change = 0; change <= round % 4; change++) {
			random = random * 1664525 + 1013904223;
			bytes[(random >> 8) % MODEL_BYTES] = (uint8_t)(round % 2 ? random >> 24 : random >> 29);
		}
		crc = qclimb_crc32(bytes, offsetof(struct model, crc32));
		memcpy(bytes + offsetof(struct model, crc32), &crc, sizeof(crc));
		memory_bytes = qclimb_model_memory_bytes(bytes, MODEL_BYTES);
		exact_memory = malloc(memory_bytes ? memory_bytes : 8);
		assert_non_null(exact_memory);
		if (!qclimb_model_load(bytes, MODEL_BYTES, exact_memory, memory_bytes, &forest)) {
			loaded++;
			qclimb_forest_bounds(&forest, value, &lower, &upper);
			assert_true(lower <= upper);
		}
		free(exact_memory);
	}
	assert_true(loaded > 100);
	free(bytes);
}

static void float_key_of_u64__rounds_as_the_processor_does(void **state)
{
	uint64_t value = 1;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		const uint64_t cases[] = { value,
					   UINT64_C(1) << round % 64,
					   (UINT64_C(1) << round % 64) - 1,
					   (UINT64_C(1) << round % 64) + 1,
					   ((UINT64_C(1) << 24) + (value & 0xffff)) << (round % 32),
					   value >> round % 64 };

		value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			const float rounded = (float)cases[i];
			int32_t bits;

			memcpy(&bits, &rounded, sizeof(bits));
			assert_int_equal(key(cases[i]), bits);
		}
	}
	assert_int_equal(key(0), 0);
	assert_int_equal(key(UINT64_MAX), 0x5f800000);
}

static void key_to_bytes__floor_ceiling_and_clamp(void **state)
{
	(void)state;
	assert_bytes(qclimb_key_to_bytes(key(UINT64_C(1) << 32), 0), UINT64_C(1) << 32);
	assert_bytes(qclimb_key_to_bytes(key(16777215), 1), 16777215);
	assert_bytes(qclimb_key_to_bytes(0x40200000, 0), 2); /* 2.5 */
	assert_bytes(qclimb_key_to_bytes(0x40200000, 1), 3);
	assert_bytes(qclimb_key_to_bytes(0x4b000001, 1), 8388609); /* 2^23 + 1: the first without fractions */
	assert_bytes(qclimb_key_to_bytes(0x4affffff, 0), 8388607); /* 2^23 - 0.5 */
	assert_bytes(qclimb_key_to_bytes(0x4affffff, 1), 8388608);
	assert_bytes(qclimb_key_to_bytes(0x3f000000, 0), 0); /* 0.5 */
	assert_bytes(qclimb_key_to_bytes(0x3f000000, 1), 1);
	assert_bytes(qclimb_key_to_bytes(1, 1), 1); /* the least float above 0 */
	assert_bytes(qclimb_key_to_bytes(0, 1), 0);
	assert_bytes(qclimb_key_to_bytes(-1, 1), 0);
	assert_bytes(qclimb_key_to_bytes(INT32_MIN, 1), 0);
	assert_bytes(qclimb_key_to_bytes(0x5f7fffff, 0), UINT64_C(0xffffff0000000000));
	assert_bytes(qclimb_key_to_bytes(0x5f800000, 0), UINT64_MAX); /* 2^64 */
	assert_bytes(qclimb_key_to_bytes(QCLIMB_KEY_INFINITY, 1), UINT64_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(bounds__least_and_greatest_over_trees),
		TEST(load__describes_the_forest),
		TEST(load__one_leaf_is_a_forest),
		TEST(predict__any_number_of_trees),
		TEST(load__memory_is_checked),
		TEST(load__length),
		TEST(load__kind_version_and_damage),
		TEST(load__impossible_headers),
		TEST(load__impossible_trees),
		TEST(load__impossible_bounds),
		TEST(load__damaged_bytes_never_lead_outside),
		TEST(float_key_of_u64__rounds_as_the_processor_does),
		TEST(key_to_bytes__floor_ceiling_and_clamp),
	};

	return cmocka_run_group_tests_name("model.h, forest.h", tests, NULL, NULL);
}
