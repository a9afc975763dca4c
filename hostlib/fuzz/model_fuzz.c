/*
 * The reader of model files on any bytes, and walks of any forest that it lets through.
 *
 * An input is a model file. It is read twice: as it is, and with a head, lengths and checksum that fit, for no fuzzer
 * finds a CRC: then its trees, features and depth are the fuzzer's alone. What loads must lie in the memory that it
 * asked for, and the walk must find what a plain walk through the file finds.
 */
#include <stdlib.h>
#include <string.h>

#include <qclimb/model.h>

#define REQUIRE(holds)                                                                                                 \
	do {                                                                                                           \
		if (!(holds))                                                                                          \
			abort();                                                                                       \
	} while (0)

/* As the header of model.h tells the format, a tree at a time, and nothing of how forest.h walks. */
static struct qclimb_forecast plain_walk(const struct qclimb_model_view *view, const int32_t *row)
{
	struct qclimb_forecast forecast = { INT32_MAX, INT32_MIN };

	for (uint32_t tree = 0; tree < view->header.trees; tree++) {
		uint32_t at = (uint32_t)qclimb_i32_at(view->roots, tree);
		struct qclimb_node node = qclimb_node_at(view, at);
		uint32_t steps = 0;
		int32_t lower, upper;

		while ((uint32_t)node.child != at) {
			REQUIRE(steps++ < view->header.depth);
			at = (uint32_t)node.child + (row[node.feature] > node.threshold_key);
			REQUIRE(at < view->header.nodes);
			node = qclimb_node_at(view, at);
		}
		lower = qclimb_i32_at(view->lower, at);
		upper = qclimb_i32_at(view->upper, at);
		forecast.lower_key = lower < forecast.lower_key ? lower : forecast.lower_key;
		forecast.upper_key = upper > forecast.upper_key ? upper : forecast.upper_key;
	}
	return forecast;
}

static void predict(const struct qclimb_forest *forest, const struct qclimb_model_view *view, const uint8_t *data,
		    size_t size)
{
	uint64_t value[QCLIMB_FEATURES] = { 0 }, lower_bytes, upper_bytes;
	int32_t row[QCLIMB_MAX_FEATURES] = { 0 };
	struct qclimb_forecast found, wanted;

	/* Rows of the file's own bytes: they lie at its thresholds. */
	for (size_t from = 0; from < size && from < 4 * sizeof(row); from += sizeof(row) / 2) {
		const size_t left = size - from;

		memcpy(row, data + from, left < sizeof(row) ? left : sizeof(row));
		found = qclimb_forest_predict(forest, row);
		wanted = plain_walk(view, row);
		REQUIRE(found.lower_key == wanted.lower_key && found.upper_key == wanted.upper_key);
		REQUIRE(qclimb_key_to_bytes(found.lower_key, 0) <= qclimb_key_to_bytes(found.upper_key, 1));
		memcpy(value, row, sizeof(row) < sizeof(value) ? sizeof(row) : sizeof(value));
		qclimb_forest_bounds(forest, value, &lower_bytes, &upper_bytes);
		REQUIRE(lower_bytes <= upper_bytes);
	}
}

/* Loads from and into memory of just the size that it says, so that the sanitizer sees a step outside. */
static void load(const uint8_t *data, size_t size)
{
	struct qclimb_model_view view;
	struct qclimb_forest forest;
	const size_t memory_bytes = qclimb_model_memory_bytes(data, size);
	uint64_t *memory = malloc(memory_bytes ? memory_bytes : 1);
	int error;

	REQUIRE(memory);
	error = qclimb_model_load(data, size, memory, memory_bytes, &forest);
	REQUIRE(error <= 0 && error >= -4095);
	if (!error) {
		REQUIRE(forest.depth <= QCLIMB_MAX_DEPTH && forest.trees <= QCLIMB_MAX_TREES);
		REQUIRE(!qclimb_model_open(data, size, &view));
		predict(&forest, &view, data, size);
	}
	free(memory);
}

/* Gives the bytes a head, lengths and checksum that fit; what remains of them, 0 where they are too few. */
static size_t repair(uint8_t *bytes, size_t size)
{
	const size_t node_bytes = sizeof(struct qclimb_node) + 2 * sizeof(int32_t);
	struct qclimb_model_header header;
	size_t room;
	uint32_t crc;

	if (size < sizeof(header) + sizeof(int32_t) + node_bytes + sizeof(crc))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	header.magic = QCLIMB_MODEL_MAGIC;
	header.version = QCLIMB_MODEL_VERSION;
	header.header_bytes = sizeof(header);
	room = size - sizeof(header) - sizeof(crc);
	header.trees = 1 + header.trees % (uint32_t)(room / (sizeof(int32_t) + node_bytes));
	header.nodes = (uint32_t)((room - header.trees * sizeof(int32_t)) / node_bytes);
	header.leaves = header.nodes;
	memcpy(bytes, &header, sizeof(header));
	size = sizeof(header) + header.trees * sizeof(int32_t) + header.nodes * node_bytes;
	crc = qclimb_crc32(bytes, size);
	memcpy(bytes + size, &crc, sizeof(crc));
	return size + sizeof(crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);
	size_t repaired;

	REQUIRE(bytes);
	if (size)
		memcpy(bytes, data, size);
	load(bytes, size);
	repaired = repair(bytes, size);
	if (repaired) {
		uint8_t *exact = malloc(repaired);

		REQUIRE(exact);
		memcpy(exact, bytes, repaired);
		load(exact, repaired);
		free(exact);
	}
	free(bytes);
	return 0;
}
