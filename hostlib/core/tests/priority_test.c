/* Every branch of Algorithm 1 and of the search for the next change. */
#include "unit.h"

#include <qclimb/priority.h>

#define UNKNOWN QCLIMB_UNKNOWN_BYTES

/* Fig. 26 of the paper: thresholds of 3 and 6, so remaining <= 2, 3 to 5, >= 6. */
static const uint64_t fig26[] = { 0, 3, 6 };

static uint32_t at(const struct qclimb_bounds *bounds, uint64_t sent_bytes)
{
	return qclimb_priority(fig26, 3, bounds, sent_bytes, sent_bytes);
}

static uint64_t next(const struct qclimb_bounds *bounds, uint64_t sent_bytes, uint64_t footprint_bytes)
{
	return qclimb_next_change(fig26, 3, bounds, sent_bytes, footprint_bytes);
}

static void add_bytes__saturates(void **state)
{
	(void)state;
	assert_bytes(qclimb_add_bytes(3, 4), 7);
	assert_bytes(qclimb_add_bytes(UNKNOWN - 1, 1), UNKNOWN);
	assert_bytes(qclimb_add_bytes(UNKNOWN, UNKNOWN), UNKNOWN);
	assert_bytes(qclimb_add_bytes(UNKNOWN, 0), UNKNOWN);
}

static void priority_of__each_range_of_fig26(void **state)
{
	static const uint32_t want[] = { 0, 0, 0, 1, 1, 1, 2, 2 };

	(void)state;
	for (uint64_t bytes = 0; bytes < 8; bytes++)
		assert_int_equal(qclimb_priority_of(fig26, 3, bytes), want[bytes]);
	assert_int_equal(qclimb_priority_of(fig26, 3, UNKNOWN), 2);
}

static void priority_of__one_priority_is_always_the_first(void **state)
{
	(void)state;
	assert_int_equal(qclimb_priority_of(fig26, 1, 0), 0);
	assert_int_equal(qclimb_priority_of(fig26, 1, UNKNOWN), 0);
}

static void priority_of__never_leaves_the_table(void **state)
{
	uint64_t threshold_bytes[QCLIMB_MAX_PRIORITIES];

	(void)state;
	for (uint64_t p = 0; p < QCLIMB_MAX_PRIORITIES; p++)
		threshold_bytes[p] = p;
	assert_int_equal(qclimb_priority_of(threshold_bytes, UINT32_MAX, UNKNOWN), QCLIMB_MAX_PRIORITIES - 1);
	assert_int_equal(qclimb_priority_of(threshold_bytes, 0, UNKNOWN), 0);
}

static void priority__fig26_climbs_by_what_remains(void **state)
{
	/* A flow of 7: remaining 7, 6 -> queue 2; 5, 4, 3 -> 1; 2, 1 -> 0. */
	const struct qclimb_bounds exact = { 7, 7, 0 };
	static const uint32_t want[] = { 2, 2, 1, 1, 1, 0, 0 };

	(void)state;
	for (uint64_t sent_bytes = 0; sent_bytes < 7; sent_bytes++)
		assert_int_equal(at(&exact, sent_bytes), want[sent_bytes]);
}

static void priority__slack_is_served_first(void **state)
{
	const struct qclimb_bounds bounds = { 7, 100, 5 };

	(void)state;
	for (uint64_t sent_bytes = 7; sent_bytes < 12; sent_bytes++)
		assert_int_equal(at(&bounds, sent_bytes), 0);
	assert_int_equal(at(&bounds, 12), 2);
}

static void priority__without_slack_demotion_follows_the_climb(void **state)
{
	const struct qclimb_bounds bounds = { 4, 100, 0 };

	(void)state;
	assert_int_equal(at(&bounds, 3), 0);
	assert_int_equal(at(&bounds, 4), 1);
	assert_int_equal(at(&bounds, 5), 1);
	assert_int_equal(at(&bounds, 6), 2);
}

static void priority__past_the_upper_bound_is_the_last(void **state)
{
	const struct qclimb_bounds bounds = { 1, 2, 0 };

	(void)state;
	assert_int_equal(at(&bounds, 0), 0);
	assert_int_equal(at(&bounds, 1), 0);
	assert_int_equal(at(&bounds, 2), 2);
	assert_int_equal(at(&bounds, UNKNOWN), 2);
}

static void priority__slack_outlasts_an_upper_bound_within_it(void **state)
{
	const struct qclimb_bounds bounds = { 2, 4, 10 };

	(void)state;
	assert_int_equal(at(&bounds, 11), 0);
	assert_int_equal(at(&bounds, 12), 2);
}

static void priority__pias_is_a_setting(void **state)
{
	const struct qclimb_bounds pias = { 0, UNKNOWN, 0 };

	(void)state;
	for (uint64_t sent_bytes = 0; sent_bytes < 10; sent_bytes++)
		assert_int_equal(at(&pias, sent_bytes), qclimb_priority_of(fig26, 3, sent_bytes));
}

static void priority__demotion_goes_by_demotion_bytes(void **state)
{
	const struct qclimb_bounds pias = { 0, UNKNOWN, 0 };
	const struct qclimb_bounds climbing = { 2, UNKNOWN, 0 };

	(void)state;
	assert_int_equal(qclimb_priority(fig26, 3, &pias, 0, 6), 2);
	assert_int_equal(qclimb_priority(fig26, 3, &climbing, 1, 6), 0);
	assert_int_equal(qclimb_priority(fig26, 3, &climbing, 2, 6), 2);
}

static void priority__no_priorities_is_the_first(void **state)
{
	const struct qclimb_bounds bounds = { 0, 0, 0 };

	(void)state;
	assert_int_equal(qclimb_priority(fig26, 0, &bounds, 1, 1), 0);
}

static void next_change__each_step_of_the_climb(void **state)
{
	const struct qclimb_bounds exact = { 7, 7, 0 };

	(void)state;
	assert_bytes(next(&exact, 0, 0), 2);
	assert_bytes(next(&exact, 1, 0), 2);
	assert_bytes(next(&exact, 2, 0), 5);
	assert_bytes(next(&exact, 5, 0), 7); /* past U: the last priority */
	assert_bytes(next(&exact, 7, 0), UNKNOWN);
}

static void next_change__jumps_over_edges_without_a_change(void **state)
{
	const struct qclimb_bounds slack = { 2, UNKNOWN, 0 }; /* at 2 still priority 0, demotion at 3 */
	const struct qclimb_bounds inside = { 1, 2, 1 }; /* climb, slack, upper bound: 0, 0, then the last */

	(void)state;
	assert_bytes(next(&slack, 0, 0), 3);
	assert_bytes(next(&inside, 0, 0), 2);
}

static void next_change__a_threshold_of_one_byte_lasts_to_the_end_of_the_climb(void **state)
{
	static const uint64_t one[] = { 0, 1, 6 };
	const struct qclimb_bounds exact = { 5, UNKNOWN, 0 }; /* 1 up to 5, then demotion: still 1 */
	const struct qclimb_bounds slack = { 5, UNKNOWN, 2 };
	const struct qclimb_bounds ends = { 5, 5, 0 };

	(void)state;
	assert_bytes(qclimb_next_change(one, 3, &exact, 0, 0), 6);
	assert_bytes(qclimb_next_change(one, 3, &slack, 0, 0), 5);
	assert_bytes(qclimb_next_change(one, 3, &ends, 0, 0), 5);
	assert_bytes(qclimb_next_change(one, 2, &ends, 0, 0), UNKNOWN);
}

static void next_change__pias_thresholds(void **state)
{
	const struct qclimb_bounds pias = { 0, UNKNOWN, 0 };

	(void)state;
	assert_bytes(next(&pias, 0, 0), 3);
	assert_bytes(next(&pias, 3, 0), 6);
	assert_bytes(next(&pias, 6, 0), UNKNOWN);
	assert_bytes(next(&pias, UNKNOWN, 0), UNKNOWN);
}

static void next_change__a_large_footprint_leaves_no_change(void **state)
{
	const struct qclimb_bounds pias = { 0, UNKNOWN, 0 };

	(void)state;
	assert_bytes(next(&pias, 0, 6), UNKNOWN);
	assert_bytes(next(&pias, 0, 4), 6);
}

static void next_change__one_priority_never_changes(void **state)
{
	const struct qclimb_bounds bounds = { 5, 9, 2 };

	(void)state;
	assert_bytes(qclimb_next_change(fig26, 1, &bounds, 0, 0), UNKNOWN);
}

static void next_change__extreme_bounds_do_not_wrap(void **state)
{
	const struct qclimb_bounds huge = { UNKNOWN, UNKNOWN, UNKNOWN };

	(void)state;
	assert_bytes(next(&huge, 0, UNKNOWN), UNKNOWN - 5);
	assert_bytes(next(&huge, UNKNOWN - 5, UNKNOWN), UNKNOWN - 2);
	assert_bytes(next(&huge, UNKNOWN - 2, UNKNOWN), UNKNOWN);
	assert_bytes(next(&huge, UNKNOWN, UNKNOWN), UNKNOWN);
}

static void demoting_bytes__are_the_largest_threshold_that_is_passed_by_more_than_a_demotion_is_late(void **state)
{
	static const uint64_t thresholds[] = { 1,     1448,  4095,   4096,    4097,	     65535,
					       65536, 65537, 243264, 1 << 30, UINT64_MAX / 2 };

	(void)state;
	assert_bytes(qclimb_demoting_bytes(0), 0);
	assert_bytes(qclimb_demoting_bytes(QCLIMB_LATE_LEAST_BYTES), 0);
	for (uint64_t i = 0; i < sizeof(thresholds) / sizeof(*thresholds); i++) {
		const uint64_t t = thresholds[i], end = t + qclimb_late_bytes(t);

		assert_true(qclimb_demoting_bytes(end) < t);
		assert_bytes(qclimb_demoting_bytes(end + 1), t);
	}
	for (uint64_t asked = 1; asked < 300000; asked += 7)
		assert_true(qclimb_demoting_bytes(asked) <= qclimb_demoting_bytes(asked + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_bytes__saturates),
		cmocka_unit_test(priority_of__each_range_of_fig26),
		cmocka_unit_test(priority_of__one_priority_is_always_the_first),
		cmocka_unit_test(priority_of__never_leaves_the_table),
		cmocka_unit_test(priority__fig26_climbs_by_what_remains),
		cmocka_unit_test(priority__slack_is_served_first),
		cmocka_unit_test(priority__without_slack_demotion_follows_the_climb),
		cmocka_unit_test(priority__past_the_upper_bound_is_the_last),
		cmocka_unit_test(priority__slack_outlasts_an_upper_bound_within_it),
		cmocka_unit_test(priority__pias_is_a_setting),
		cmocka_unit_test(priority__demotion_goes_by_demotion_bytes),
		cmocka_unit_test(priority__no_priorities_is_the_first),
		cmocka_unit_test(
			demoting_bytes__are_the_largest_threshold_that_is_passed_by_more_than_a_demotion_is_late),
		cmocka_unit_test(next_change__each_step_of_the_climb),
		cmocka_unit_test(next_change__jumps_over_edges_without_a_change),
		cmocka_unit_test(next_change__a_threshold_of_one_byte_lasts_to_the_end_of_the_climb),
		cmocka_unit_test(next_change__pias_thresholds),
		cmocka_unit_test(next_change__a_large_footprint_leaves_no_change),
		cmocka_unit_test(next_change__one_priority_never_changes),
		cmocka_unit_test(next_change__extreme_bounds_do_not_wrap),
	};

	return cmocka_run_group_tests_name("priority.h", tests, NULL, NULL);
}
