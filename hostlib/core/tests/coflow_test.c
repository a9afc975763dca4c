/* OPTAX's rules: small tasks, their line, window and ACK delay. */
#include "unit.h"

#include <qclimb/coflow.h>

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define CAPACITY UINT64_C(1000000) /* bytes a second: alpha C is 900,000 */

static void task_is_small__up_to_the_limit(void **state)
{
	(void)state;
	assert_true(qclimb_task_is_small(1 << 20, 1 << 20));
	assert_false(qclimb_task_is_small((1 << 20) + 1, 1 << 20));
}

static void task_rank__is_by_arrival(void **state)
{
	const struct qclimb_task line[] = { { 7, 30, 90 }, { 0, 0, 95 }, { 5, 10, 90 }, { 6, 20, 90 } };

	(void)state;
	assert_int_equal(qclimb_task_rank(line, 4, 5, 100, 50), 0);
	assert_int_equal(qclimb_task_rank(line, 4, 6, 100, 50), 1);
	assert_int_equal(qclimb_task_rank(line, 4, 7, 100, 50), 2);
}

static void task_rank__of_those_that_came_at_once_is_by_id(void **state)
{
	const struct qclimb_task line[] = { { 9, 10, 90 }, { 8, 10, 90 } };

	(void)state;
	assert_int_equal(qclimb_task_rank(line, 2, 8, 100, 50), 0);
	assert_int_equal(qclimb_task_rank(line, 2, 9, 100, 50), 1);
}

static void task_rank__passes_over_who_is_quiet(void **state)
{
	const struct qclimb_task line[] = { { 5, 10, 49 }, { 6, 20, 90 }, { 7, 30, 50 } };

	(void)state;
	assert_int_equal(qclimb_task_rank(line, 3, 6, 100, 50), 0); /* 5 was quiet for 51 */
	assert_int_equal(qclimb_task_rank(line, 3, 7, 100, 50), 1);
	assert_int_equal(qclimb_task_rank(line, 3, 6, 99, 50), 1);
	assert_int_equal(qclimb_task_rank(line, 3, 6, 40, 50), 1); /* a clock read before 5 was active */
}

static void task_rank__of_a_stranger_is_none(void **state)
{
	const struct qclimb_task line[] = { { 5, 10, 90 }, { 0, 0, 0 } };

	(void)state;
	assert_int_equal(qclimb_task_rank(line, 2, 6, 100, 50), QCLIMB_NOT_IN_LINE);
	assert_int_equal(qclimb_task_rank(line, 2, 0, 100, 50), QCLIMB_NOT_IN_LINE);
	assert_int_equal(qclimb_task_rank(line, 0, 5, 100, 50), QCLIMB_NOT_IN_LINE);
}

static void task_bound__is_half_as_much_again_as_what_ended(void **state)
{
	(void)state;
	assert_bytes(qclimb_task_bound(0), UINT64_MAX); /* nothing is known */
	assert_bytes(qclimb_task_bound(1), 256 << 10);
	assert_bytes(qclimb_task_bound(2000000), 3000000);
	assert_bytes(qclimb_task_bound(UINT64_MAX), UINT64_MAX);
	assert_bytes(qclimb_task_bound(UINT64_MAX / 2), UINT64_MAX / 2 + UINT64_MAX / 4);
}

static void task_bytes_next__rise_at_once_but_fourfold_at_most_and_fall_slowly(void **state)
{
	(void)state;
	assert_bytes(qclimb_task_bytes_next(0, 5000), 5000);
	assert_bytes(qclimb_task_bytes_next(1000, 3000), 3000);
	assert_bytes(qclimb_task_bytes_next(1000, 5000), 4000);
	assert_bytes(qclimb_task_bytes_next(1600, 0), 1500);
	assert_bytes(qclimb_task_bytes_next(1000, 1000), 1000);
	assert_bytes(qclimb_task_bytes_next(UINT64_MAX, 0), UINT64_MAX - UINT64_MAX / 16);
	assert_bytes(qclimb_task_bytes_next(1, UINT64_MAX), 4);
}

static void window_next__shrinks_by_one_when_congested(void **state)
{
	(void)state;
	assert_int_equal(qclimb_window_next(10, 900000, CAPACITY, 2, 64), 9);
	assert_int_equal(qclimb_window_next(10, UINT64_MAX, CAPACITY, 2, 64), 9);
	assert_int_equal(qclimb_window_next(2, 900000, CAPACITY, 2, 64), 2);
	assert_int_equal(qclimb_window_next(0, 900000, CAPACITY, 2, 64), 2);
}

static void window_next__doubles_up_to_half_and_else_grows_by_one(void **state)
{
	(void)state;
	assert_int_equal(qclimb_window_next(10, 450000, CAPACITY, 2, 64), 20);
	assert_int_equal(qclimb_window_next(10, 450001, CAPACITY, 2, 64), 11);
	assert_int_equal(qclimb_window_next(10, 899999, CAPACITY, 2, 64), 11);
	assert_int_equal(qclimb_window_next(40, 0, CAPACITY, 2, 64), 64);
	assert_int_equal(qclimb_window_next(UINT32_MAX, 0, CAPACITY, 2, UINT32_MAX), UINT32_MAX);
	assert_int_equal(qclimb_window_next(10, 0, 0, 2, 64), 9); /* no capacity known: congested */
}

static void large_window_next__halves_while_large_flows_have_more_than_their_share(void **state)
{
	(void)state;
	/* 1 large flow beside 9: a tenth of the link is its share. */
	assert_int_equal(qclimb_large_window_next(0, 100001, CAPACITY, 1, 9, 2, 64), 64);
	assert_int_equal(qclimb_large_window_next(64, 100001, CAPACITY, 1, 9, 2, 64), 32);
	assert_int_equal(qclimb_large_window_next(3, 100001, CAPACITY, 1, 9, 2, 64), 2);
	assert_int_equal(qclimb_large_window_next(2, UINT64_MAX, CAPACITY, 1, 9, 2, 64), 2);
	assert_int_equal(qclimb_large_window_next(UINT32_MAX, 100001, CAPACITY, 1, 9, 2, 64), 64);
}

static void large_window_next__is_the_kernels_again_up_to_their_share(void **state)
{
	uint32_t window = 2, intervals = 0;

	(void)state;
	for (; window; intervals++)
		window = qclimb_large_window_next(window, 100000, CAPACITY, 1, 9, 2, 64);
	assert_int_equal(intervals, 6);
	assert_int_equal(qclimb_large_window_next(0, 100000, CAPACITY, 1, 9, 2, 64), 0);
	assert_int_equal(qclimb_large_window_next(8, 800000, CAPACITY, 8, 2, 2, 64), 16); /* 8 of 10 flows */
	assert_int_equal(qclimb_large_window_next(UINT32_MAX, 0, CAPACITY, UINT32_MAX, UINT32_MAX, 2, 64), 0);
}

static void large_window_next__is_the_kernels_at_once_with_nobody_in_line(void **state)
{
	(void)state;
	assert_int_equal(qclimb_large_window_next(2, CAPACITY, CAPACITY, 1, 0, 2, 64), 0);
	assert_int_equal(qclimb_large_window_next(2, CAPACITY, CAPACITY, 0, 9, 2, 64), 0); /* nor a large flow */
}

static void congested_rate__is_nine_tenths_without_overflow(void **state)
{
	(void)state;
	assert_bytes(qclimb_congested_rate(CAPACITY), 900000);
	assert_bytes(qclimb_congested_rate(19), 17);
	assert_bytes(qclimb_congested_rate(UINT64_MAX), UINT64_C(16602069666338596453));
}

static void rate_before_next__is_all_at_once_and_less_by_a_twentieth(void **state)
{
	uint64_t before = 300000;
	int intervals = 0;

	(void)state;
	assert_bytes(qclimb_rate_before_next(before, 300000, CAPACITY, QCLIMB_LINK_UNKNOWN), 300000);
	before = qclimb_rate_before_next(before, 300000, CAPACITY, QCLIMB_LINK_FULL);
	assert_bytes(before, CAPACITY);
	for (; before > 300000; intervals++)
		before = qclimb_rate_before_next(before, 300000, CAPACITY, QCLIMB_LINK_UNKNOWN);
	assert_bytes(before, 300000);
	assert_int_equal(intervals, 14);
	assert_bytes(qclimb_rate_before_next(before, 800000, CAPACITY, QCLIMB_LINK_UNKNOWN), 800000); /* up at once */
	assert_bytes(qclimb_rate_before_next(before, UINT64_MAX, CAPACITY, QCLIMB_LINK_UNKNOWN), CAPACITY);
	assert_bytes(qclimb_rate_before_next(UINT64_MAX, 0, CAPACITY, QCLIMB_LINK_UNKNOWN),
		     CAPACITY - CAPACITY / 20 - 1);
	assert_bytes(qclimb_rate_before_next(7, 0, 0, QCLIMB_LINK_UNKNOWN), 0);
}

static void rate_before_next__is_what_was_measured_where_there_is_slack(void **state)
{
	(void)state;
	assert_bytes(qclimb_rate_before_next(CAPACITY, 300000, CAPACITY, QCLIMB_LINK_SLACK), 300000);
}

static void flows_are_few__up_to_eight_or_twice_as_many_as_left_slack(void **state)
{
	(void)state;
	assert_true(qclimb_flows_are_few(8, 0));
	assert_false(qclimb_flows_are_few(9, 0));
	assert_false(qclimb_flows_are_few(9, 4));
	assert_true(qclimb_flows_are_few(9, 5));
	assert_true(qclimb_flows_are_few(41, 21));
	assert_false(qclimb_flows_are_few(42, 21));
	assert_true(qclimb_flows_are_few(UINT32_MAX, UINT32_MAX));
}

static void tasks_are_tiny__below_one_burst_and_brief_by_the_links_rate(void **state)
{
	(void)state;
	assert_false(qclimb_tasks_are_tiny(0)); /* not known */
	assert_true(qclimb_tasks_are_tiny(QCLIMB_TINY_TASK_BYTES));
	assert_false(qclimb_tasks_are_tiny(QCLIMB_TINY_TASK_BYTES + 1));
	/* 20 KB in 2 ms are 10 MB a second. */
	assert_true(qclimb_tasks_are_brief(20000, 10000000));
	assert_false(qclimb_tasks_are_brief(20001, 10000000));
	assert_false(qclimb_tasks_are_brief(QCLIMB_TINY_TASK_BYTES + 1, UINT64_MAX));
	assert_false(qclimb_tasks_are_brief(0, UINT64_MAX));
}

static void joined_next__doubles_where_there_is_slack_and_halves_where_the_link_is_full(void **state)
{
	(void)state;
	assert_int_equal(qclimb_joined_next(0, QCLIMB_LINK_UNKNOWN), 1);
	assert_int_equal(qclimb_joined_next(0, QCLIMB_LINK_SLACK), 1);
	assert_int_equal(qclimb_joined_next(3, QCLIMB_LINK_UNKNOWN), 4);
	assert_int_equal(qclimb_joined_next(3, QCLIMB_LINK_SLACK), 7);
	assert_int_equal(qclimb_joined_next(QCLIMB_TASKS, QCLIMB_LINK_SLACK), QCLIMB_TASKS);
	assert_int_equal(qclimb_joined_next(7, QCLIMB_LINK_FULL), 3);
	assert_int_equal(qclimb_joined_next(0, QCLIMB_LINK_FULL), 0);
	assert_in_range(qclimb_joined_next(UINT32_MAX, QCLIMB_LINK_SLACK), 0, QCLIMB_TASKS);
}

static void ack_delay__fills_what_is_left_of_alpha_c(void **state)
{
	(void)state;
	/* 30 flows of 3,000 bytes: 90,000 bytes at 900,000 - 450,000 bytes a second take 200 ms. */
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, 450000, 0, SECOND), 200 * MS);
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, 450000, 50 * MS, SECOND), 150 * MS);
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, 450000, 300 * MS, SECOND), 0);
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, 450000, 0, 120 * MS), 120 * MS);
	assert_bytes(qclimb_ack_delay_ns(1000, 2250, CAPACITY, 0, 0, 9 * SECOND), 2500 * MS);
	assert_bytes(qclimb_ack_delay_ns(0, 3000, CAPACITY, 0, 0, SECOND), 0);
}

static void ack_delay__is_the_longest_where_nothing_is_left(void **state)
{
	(void)state;
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, 900000, 0, SECOND), SECOND);
	assert_bytes(qclimb_ack_delay_ns(30, 3000, CAPACITY, UINT64_MAX, 0, SECOND), SECOND);
	assert_bytes(qclimb_ack_delay_ns(1, 1, 0, 0, 0, SECOND), SECOND);
}

static void ack_delay__never_overflows(void **state)
{
	const uint64_t huge = UINT64_MAX;

	(void)state;
	assert_bytes(qclimb_ack_delay_ns(UINT32_MAX, huge, huge, 0, 0, SECOND), SECOND);
	assert_bytes(qclimb_ack_delay_ns(UINT32_MAX, 1 << 20, CAPACITY, 0, 0, huge / 2), UINT64_C(5003999584802133333));
	/* Half of alpha C in one second, at rates whose products with 10^9 leave 64 bits. */
	assert_in_range(qclimb_ack_delay_ns(1, qclimb_congested_rate(huge) / 2, huge, 0, 0, SECOND), SECOND / 2 - MS,
			SECOND / 2 + MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(task_is_small__up_to_the_limit),
		cmocka_unit_test(task_rank__is_by_arrival),
		cmocka_unit_test(task_rank__of_those_that_came_at_once_is_by_id),
		cmocka_unit_test(task_rank__passes_over_who_is_quiet),
		cmocka_unit_test(task_rank__of_a_stranger_is_none),
		cmocka_unit_test(window_next__shrinks_by_one_when_congested),
		cmocka_unit_test(window_next__doubles_up_to_half_and_else_grows_by_one),
		cmocka_unit_test(large_window_next__halves_while_large_flows_have_more_than_their_share),
		cmocka_unit_test(large_window_next__is_the_kernels_again_up_to_their_share),
		cmocka_unit_test(large_window_next__is_the_kernels_at_once_with_nobody_in_line),
		cmocka_unit_test(congested_rate__is_nine_tenths_without_overflow),
		cmocka_unit_test(task_bound__is_half_as_much_again_as_what_ended),
		cmocka_unit_test(task_bytes_next__rise_at_once_but_fourfold_at_most_and_fall_slowly),
		cmocka_unit_test(rate_before_next__is_all_at_once_and_less_by_a_twentieth),
		cmocka_unit_test(rate_before_next__is_what_was_measured_where_there_is_slack),
		cmocka_unit_test(flows_are_few__up_to_eight_or_twice_as_many_as_left_slack),
		cmocka_unit_test(tasks_are_tiny__below_one_burst_and_brief_by_the_links_rate),
		cmocka_unit_test(joined_next__doubles_where_there_is_slack_and_halves_where_the_link_is_full),
		cmocka_unit_test(ack_delay__fills_what_is_left_of_alpha_c),
		cmocka_unit_test(ack_delay__is_the_longest_where_nothing_is_left),
		cmocka_unit_test(ack_delay__never_overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
