/*
 * Times forest.h for bench/forest.py, which loads this as a shared library. Nothing here is installed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qclimb/model.h>

#define EXPORT __attribute__((visibility("default")))

static struct qclimb_forest forest;
static void *forest_memory;

EXPORT int bench_load(const void *bytes, size_t len);
EXPORT void bench_predict(const int32_t *row_key, size_t rows, int32_t *lower_key, int32_t *upper_key);
EXPORT double bench_warm_ns(const int32_t *row_key, size_t rows, size_t repeats);
EXPORT void bench_cold_ns(const int32_t *row_key, size_t rows, uint8_t *evict, size_t evict_bytes, double *ns);
EXPORT double bench_load_ns(const void *bytes, size_t len);

static volatile int32_t sink;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int bench_load(const void *bytes, size_t len)
{
	const size_t memory_bytes = qclimb_model_memory_bytes(bytes, len);

	free(forest_memory);
	forest_memory = aligned_alloc(64, (memory_bytes + 63) / 64 * 64);
	return forest_memory ? qclimb_model_load(bytes, len, forest_memory, memory_bytes, &forest) : -ENOMEM;
}

/* Rows are QCLIMB_MAX_FEATURES keys each, here and below. */
void bench_predict(const int32_t *row_key, size_t rows, int32_t *lower_key, int32_t *upper_key)
{
	for (size_t i = 0; i < rows; i++) {
		const struct qclimb_forecast forecast =
			qclimb_forest_predict(&forest, row_key + i * QCLIMB_MAX_FEATURES);

		lower_key[i] = forecast.lower_key;
		upper_key[i] = forecast.upper_key;
	}
}

/* Mean over rows x repeats: tables and row in the cache, another row each time. */
double bench_warm_ns(const int32_t *row_key, size_t rows, size_t repeats)
{
	const double start = now_ns();

	for (size_t k = 0; k < repeats; k++)
		for (size_t i = 0; i < rows; i++)
			sink = qclimb_forest_predict(&forest, row_key + i * QCLIMB_MAX_FEATURES).lower_key;
	return (now_ns() - start) / (double)(rows * repeats);
}

/* One inference a row, each after `evict_bytes` were written, so that nothing of the forest is cached; one clock call included. */
void bench_cold_ns(const int32_t *row_key, size_t rows, uint8_t *evict, size_t evict_bytes, double *ns)
{
	for (size_t i = 0; i < rows; i++) {
		for (size_t byte = 0; byte < evict_bytes; byte += 64)
			evict[byte]++;
		const double start = now_ns();

		sink = qclimb_forest_predict(&forest, row_key + i * QCLIMB_MAX_FEATURES).lower_key;
		ns[i] = now_ns() - start;
	}
}

/* Checking and unpacking the model file into memory that was touched before. */
double bench_load_ns(const void *bytes, size_t len)
{
	const double start = now_ns();

	if (qclimb_model_load(bytes, len, forest_memory, qclimb_model_memory_bytes(bytes, len), &forest))
		return -1;
	return now_ns() - start;
}
