/* The priority of a flow with a deadline, from the time it has left. */
#include "unit.h"

#include <qclimb/deadline.h>

static void deadline_priority__each_step_is_twice_the_one_before(void **state)
{
	static const uint64_t end_us[] = { 1000, 2000, 4000, 8000 };

	(void)state;
	for (uint32_t p = 0; p < 4; p++) {
		assert_int_equal(qclimb_deadline_priority(1000, 8, end_us[p]), p);
		assert_int_equal(qclimb_deadline_priority(1000, 8, end_us[p] + 1), p + 1);
	}
	assert_int_equal(qclimb_deadline_priority(1000, 8, 1), 0);
}

static void deadline_priority__far_away_is_the_last(void **state)
{
	(void)state;
	assert_int_equal(qclimb_deadline_priority(1000, 8, 64000), 6);
	assert_int_equal(qclimb_deadline_priority(1000, 8, 64001), 7);
	assert_int_equal(qclimb_deadline_priority(1000, 8, UINT64_MAX), 7);
	assert_int_equal(qclimb_deadline_priority(UINT32_MAX, 64, UINT64_MAX), 33); /* its end lies beyond 64 bits */
}

static void deadline_priority__past_is_the_last(void **state)
{
	(void)state;
	assert_int_equal(qclimb_deadline_priority(1000, 8, 0), 7);
	assert_int_equal(qclimb_deadline_priority(1000, 2, 0), 1);
}

static void deadline_priority__one_priority_is_all_there_is(void **state)
{
	(void)state;
	assert_int_equal(qclimb_deadline_priority(1000, 1, 0), 0);
	assert_int_equal(qclimb_deadline_priority(1000, 1, 5000), 0);
	assert_int_equal(qclimb_deadline_priority(1000, 0, 5000), 0);
}

static void deadline_priority__only_moves_earlier_until_the_deadline(void **state)
{
	(void)state;
	for (uint32_t priorities = 1; priorities <= QCLIMB_MAX_PRIORITIES; priorities++) {
		uint32_t before = priorities - 1;

		for (uint64_t left_us = 1000000; left_us; left_us -= left_us / 50 + 1) {
			const uint32_t now = qclimb_deadline_priority(700, priorities, left_us);

			assert_true(now <= before);
			before = now;
		}
		assert_int_equal(before, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadline_priority__each_step_is_twice_the_one_before),
		cmocka_unit_test(deadline_priority__far_away_is_the_last),
		cmocka_unit_test(deadline_priority__past_is_the_last),
		cmocka_unit_test(deadline_priority__one_priority_is_all_there_is),
		cmocka_unit_test(deadline_priority__only_moves_earlier_until_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
