/*
 * Times forest.h for bench/forest.py, which loads this as a shared library. Nothing here is installed.
 */
#include <stdlib.h>
#include <time.h>

#include <qclimb/model.h>

int bench_load(const void *bytes, size_t len);
void bench_predict(const uint64_t *value, size_t rows, uint64_t *bounds);
double bench_warm_ns(const uint64_t *value, size_t rows);
void bench_cold_ns(const uint64_t *value, size_t rows, uint8_t *evict, size_t evict_bytes, double *ns);
double bench_load_ns(const void *bytes, size_t len);

static struct qclimb_forest forest;
static void *forest_memory;
static volatile uint64_t sink;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint64_t lower_of(const uint64_t *value)
{
	uint64_t lower_bytes, upper_bytes;

	qclimb_forest_bounds(&forest, value, &lower_bytes, &upper_bytes);
	return lower_bytes;
}

int bench_load(const void *bytes, size_t len)
{
	const size_t memory_bytes = qclimb_model_memory_bytes(bytes, len);

	free(forest_memory);
	forest_memory = aligned_alloc(64, (memory_bytes + 64) / 64 * 64);
	return forest_memory ? qclimb_model_load(bytes, len, forest_memory, memory_bytes, &forest) : -ENOMEM;
}

/* Bounds [rows][2] of rows of QCLIMB_FEATURES values each. */
void bench_predict(const uint64_t *value, size_t rows, uint64_t *bounds)
{
	for (size_t i = 0; i < rows; i++)
		qclimb_forest_bounds(&forest, value + i * QCLIMB_FEATURES, &bounds[2 * i], &bounds[2 * i + 1]);
}

/* Mean over the rows, another one each time: the forest is in the cache, the way through it is not known to the
 * processor. */
double bench_warm_ns(const uint64_t *value, size_t rows)
{
	const double start = now_ns();

	for (size_t i = 0; i < rows; i++)
		sink = lower_of(value + i * QCLIMB_FEATURES);
	return (now_ns() - start) / (double)rows;
}

/* One inference a row, each after `evict_bytes` were written, so that nothing of the forest is cached; with one call of
 * the clock. */
void bench_cold_ns(const uint64_t *value, size_t rows, uint8_t *evict, size_t evict_bytes, double *ns)
{
	for (size_t i = 0; i < rows; i++) {
		double start;

		for (size_t byte = 0; byte < evict_bytes; byte += 64)
			evict[byte]++;
		start = now_ns();
		sink = lower_of(value + i * QCLIMB_FEATURES);
		ns[i] = now_ns() - start;
	}
}

/* Checking and unpacking the model file, into memory that was touched before; < 0 if it does not load. */
double bench_load_ns(const void *bytes, size_t len)
{
	const double start = now_ns();

	if (qclimb_model_load(bytes, len, forest_memory, qclimb_model_memory_bytes(bytes, len), &forest))
		return -1;
	return now_ns() - start;
}
