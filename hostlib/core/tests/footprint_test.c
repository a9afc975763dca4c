/* What writes prove about a flow, and how flows written in the usual ways are then served. */
#include "unit.h"

#include <qclimb/footprint.h>

#define KB UINT64_C(1000)
#define UNKNOWN QCLIMB_UNKNOWN_BYTES

static struct qclimb_policy policy;
static struct qclimb_footprint flow;

/* Thresholds of 20, 50, 100, 200, 500, 1000 and 2000 KB, slack of 100 KB, everything on. */
static int set_up(void **state)
{
	static const uint64_t kilobytes[] = { 0, 20, 50, 100, 200, 500, 1000, 2000 };

	(void)state;
	qclimb_policy_default(&policy);
	policy.mode = QCLIMB_FULL;
	policy.slack_bytes = 100 * KB;
	for (int p = 0; p < 8; p++)
		policy.threshold_bytes[p] = kilobytes[p] * KB;
	qclimb_footprint_start(&flow);
	return 0;
}

static struct qclimb_flow_rule rule(void)
{
	return qclimb_flow_rule_of(&policy, &flow);
}

static uint32_t priority_at(uint64_t sent_bytes)
{
	const struct qclimb_flow_rule now = rule();

	return qclimb_flow_priority(&policy, &now, sent_bytes);
}

static void rule_of__nothing_known_is_pias(void **state)
{
	(void)state;
	assert_bytes(rule().bounds.lower_bytes, 0);
	assert_bytes(rule().bounds.upper_bytes, UNKNOWN);
	assert_bytes(rule().bounds.slack_bytes, 0);
	assert_bytes(rule().footprint_bytes, 0);
}

static void rule_of__forest_gives_lower_upper_and_slack(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 30 * KB, 900 * KB);
	assert_bytes(rule().bounds.lower_bytes, 30 * KB);
	assert_bytes(rule().bounds.upper_bytes, 900 * KB);
	assert_bytes(rule().bounds.slack_bytes, 100 * KB);
}

static void foretell__impossible_bounds_are_refused(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 2, 1);
	assert_int_equal(flow.has_forest, 0);
	assert_bytes(rule().bounds.upper_bytes, UNKNOWN);
}

static void rule_of__pias_uses_neither_forest_nor_footprint(void **state)
{
	(void)state;
	policy.mode = QCLIMB_PIAS;
	qclimb_footprint_foretell(&flow, 30 * KB, 900 * KB);
	qclimb_footprint_ask(&flow, 0, 1000 * KB, 0);
	rule_of__nothing_known_is_pias(state);
}

static void rule_of__flags_turn_each_half_off(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 30 * KB, 900 * KB);
	qclimb_footprint_ask(&flow, 0, 1000 * KB, 0);
	policy.flags = QCLIMB_USE_FOOTPRINT;
	assert_bytes(rule().bounds.lower_bytes, 1000 * KB);
	assert_bytes(rule().bounds.upper_bytes, UNKNOWN);
	assert_bytes(rule().bounds.slack_bytes, 0);
	policy.flags = QCLIMB_USE_FOREST;
	assert_bytes(rule().bounds.lower_bytes, 30 * KB);
	assert_bytes(rule().bounds.upper_bytes, 900 * KB);
	assert_bytes(rule().footprint_bytes, 0);
}

static void ask__one_large_write_is_its_own_forecast(void **state)
{
	uint64_t sent_bytes = 0;
	uint32_t last = 8;

	(void)state;
	qclimb_footprint_ask(&flow, 0, 1000 * KB, 0);
	assert_bytes(rule().bounds.lower_bytes, 1000 * KB);
	assert_int_equal(priority_at(0), 6);
	while (sent_bytes < 1000 * KB) { /* each priority once, served ever earlier */
		const struct qclimb_flow_rule now = rule();

		assert_true(priority_at(sent_bytes) < last);
		last = priority_at(sent_bytes);
		sent_bytes = qclimb_flow_next_change(&policy, &now, sent_bytes);
	}
	assert_int_equal(last, 0);
	assert_bytes(sent_bytes, 1000 * KB); /* the next change is where it ends */
}

static void ask__header_and_body_are_one_size(void **state)
{
	(void)state;
	qclimb_footprint_ask(&flow, 0, 300, 0);
	assert_int_equal(priority_at(0), 0);
	qclimb_footprint_ask(&flow, 300, 99700, 0);
	assert_bytes(rule().bounds.lower_bytes, 100 * KB);
	assert_int_equal(priority_at(300), 2);
	assert_int_equal(priority_at(100 * KB - 1), 0);
}

static void ask__rest_of_a_short_write_counts_once(void **state)
{
	(void)state;
	qclimb_footprint_ask(&flow, 0, 100 * KB, 0);
	qclimb_footprint_ask(&flow, 40 * KB, 60 * KB, 0);
	assert_bytes(flow.asked_bytes, 100 * KB);
	qclimb_footprint_ask(&flow, 70 * KB, 10 * KB, 0);
	assert_bytes(flow.asked_bytes, 100 * KB); /* asking for less takes nothing back */
}

static void ask__first_ack_fixes_the_lower_bound(void **state)
{
	(void)state;
	qclimb_footprint_ask(&flow, 0, 64 * KB, 0);
	qclimb_footprint_ask(&flow, 64 * KB, 64 * KB, 1);
	assert_bytes(rule().bounds.lower_bytes, 64 * KB);
	qclimb_footprint_ask(&flow, 128 * KB, 64 * KB, 1);
	assert_bytes(rule().bounds.lower_bytes, 64 * KB);
	assert_bytes(rule().footprint_bytes, 192 * KB);
}

static void ask__a_count_without_end_saturates(void **state)
{
	(void)state;
	qclimb_footprint_ask(&flow, 1, UNKNOWN, 0);
	assert_bytes(flow.asked_bytes, UNKNOWN);
}

static void rule_of__footprint_raises_the_upper_bound(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 1 * KB, 10 * KB);
	qclimb_footprint_ask(&flow, 0, 5 * KB, 0);
	qclimb_footprint_ask(&flow, 5 * KB, 40 * KB, 1);
	assert_bytes(rule().bounds.upper_bytes, 45 * KB);
}

static void rule_of__slack_ends_where_the_forests_would(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 30 * KB, 10000 * KB);
	qclimb_footprint_ask(&flow, 0, 64 * KB, 0);
	assert_bytes(rule().bounds.lower_bytes, 64 * KB);
	assert_bytes(rule().bounds.slack_bytes, 66 * KB); /* 30 + 100 - 64 */
	qclimb_footprint_ask(&flow, 0, 500 * KB, 0);
	assert_bytes(rule().bounds.slack_bytes, 0);
}

static void rule_of__one_burst_is_sent_in_the_mirrored_order_of_its_climb(void **state)
{
	static const uint64_t edges[] = { 0, 1448, 2896, 4344 };

	(void)state;
	policy.slack_bytes = 0;
	policy.priorities = 4;
	for (int p = 0; p < 4; p++)
		policy.threshold_bytes[p] = edges[p];
	qclimb_footprint_ask(&flow, 0, QCLIMB_BURST_BYTES, 0);
	for (uint64_t sent = 0; sent < QCLIMB_BURST_BYTES; sent++)
		assert_int_equal(priority_at(sent), qclimb_priority_of(edges, 4, sent));
	qclimb_footprint_ask(&flow, 0, QCLIMB_BURST_BYTES + 1, 0);
	assert_int_equal(priority_at(0), 3);
	assert_int_equal(priority_at(QCLIMB_BURST_BYTES), 0);
}

static void rule_of__slack_forgives_a_forest_that_foretold_one_burst(void **state)
{
	(void)state;
	qclimb_footprint_foretell(&flow, 1 * KB, 900 * KB);
	qclimb_footprint_ask(&flow, 0, 1 * KB, 0);
	assert_int_equal(priority_at(100 * KB - 1), 0); /* PIAS: 2 */
	assert_int_equal(priority_at(100 * KB), 3);
}

static void tell__the_applications_size_is_both_bounds_without_slack(void **state)
{
	(void)state;
	policy.flags = 0;
	qclimb_footprint_foretell(&flow, 30 * KB, 900 * KB);
	qclimb_footprint_tell(&flow, 600 * KB);
	qclimb_footprint_foretell(&flow, 30 * KB, 900 * KB);
	qclimb_footprint_ask(&flow, 0, 1 * KB, 0);
	assert_bytes(rule().bounds.lower_bytes, 600 * KB);
	assert_bytes(rule().bounds.upper_bytes, 600 * KB);
	assert_bytes(rule().bounds.slack_bytes, 0);
	assert_int_equal(priority_at(0), 5);
	assert_int_equal(priority_at(600 * KB - 1), 0);
	assert_int_equal(priority_at(600 * KB), 7);
	policy.mode = QCLIMB_PIAS;
	rule_of__nothing_known_is_pias(state);
}

static void tell__a_size_too_small_gives_way_to_what_is_asked_for(void **state)
{
	(void)state;
	qclimb_footprint_tell(&flow, 20 * KB);
	qclimb_footprint_ask(&flow, 0, 600 * KB, 0);
	assert_bytes(rule().bounds.lower_bytes, 600 * KB);
	assert_bytes(rule().bounds.upper_bytes, 600 * KB);
	assert_bytes(rule().bounds.slack_bytes, 0);
}

/* Writes 20 MB in pieces of 64 KB. Says how many bytes went at each priority. */
static void stream(int is_drained_between, uint64_t *bytes_at)
{
	const uint64_t end = 20000 * KB, piece = 64 * KB, rtt_bytes = 256 * KB;

	for (int p = 0; p < 8; p++)
		bytes_at[p] = 0;
	for (uint64_t sent_bytes = 0; sent_bytes < end;) {
		const uint64_t call_bytes = end - sent_bytes < piece ? end - sent_bytes : piece;
		const uint64_t call_end = sent_bytes + call_bytes;

		qclimb_footprint_ask(&flow, sent_bytes, call_bytes,
				     sent_bytes && (is_drained_between || sent_bytes > rtt_bytes));
		while (sent_bytes < call_end) {
			const struct qclimb_flow_rule now = rule();
			const uint64_t change = qclimb_flow_next_change(&policy, &now, sent_bytes);
			const uint64_t split = change < call_end ? change : call_end;

			bytes_at[qclimb_flow_priority(&policy, &now, sent_bytes)] += split - sent_bytes;
			sent_bytes = split;
		}
	}
}

static void rule_of__a_stream_drained_between_its_writes_sinks(void **state)
{
	uint64_t bytes_at[8];

	(void)state;
	stream(1, bytes_at);
	assert_true(bytes_at[0] <= 64 * KB);
	assert_true(bytes_at[7] >= 17900 * KB);
}

static void rule_of__a_stream_never_drained_sinks(void **state)
{
	uint64_t bytes_at[8];

	(void)state;
	stream(0, bytes_at);
	assert_true(bytes_at[0] <= 320 * KB); /* what was written before the first ACK */
	assert_true(bytes_at[7] >= 17900 * KB);
}

static void rule_of__a_stream_that_the_forest_took_for_small_sinks(void **state)
{
	uint64_t bytes_at[8];

	(void)state;
	qclimb_footprint_foretell(&flow, 1 * KB, 10 * KB);
	stream(1, bytes_at);
	assert_true(bytes_at[0] <= 101 * KB); /* L + S */
	assert_true(bytes_at[7] >= 17900 * KB);
}

static void rule_of__footprint_makes_no_flow_sink_later_than_pias(void **state)
{
	uint64_t with[8], without[8], with_sum = 0, without_sum = 0;

	(void)state;
	stream(1, with);
	policy.mode = QCLIMB_PIAS;
	qclimb_footprint_start(&flow);
	stream(1, without);
	/* Past the first write, which has an exact size of its own. */
	for (int p = 0; p < 8; p++) {
		with_sum += with[p];
		without_sum += without[p];
		assert_true(with_sum <= without_sum + 64 * KB);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(rule_of__nothing_known_is_pias),
		TEST(rule_of__forest_gives_lower_upper_and_slack),
		TEST(foretell__impossible_bounds_are_refused),
		TEST(rule_of__pias_uses_neither_forest_nor_footprint),
		TEST(rule_of__flags_turn_each_half_off),
		TEST(ask__one_large_write_is_its_own_forecast),
		TEST(ask__header_and_body_are_one_size),
		TEST(ask__rest_of_a_short_write_counts_once),
		TEST(ask__first_ack_fixes_the_lower_bound),
		TEST(ask__a_count_without_end_saturates),
		TEST(rule_of__footprint_raises_the_upper_bound),
		TEST(rule_of__slack_ends_where_the_forests_would),
		TEST(rule_of__one_burst_is_sent_in_the_mirrored_order_of_its_climb),
		TEST(rule_of__slack_forgives_a_forest_that_foretold_one_burst),
		TEST(tell__the_applications_size_is_both_bounds_without_slack),
		TEST(tell__a_size_too_small_gives_way_to_what_is_asked_for),
		TEST(rule_of__a_stream_drained_between_its_writes_sinks),
		TEST(rule_of__a_stream_never_drained_sinks),
		TEST(rule_of__a_stream_that_the_forest_took_for_small_sinks),
		TEST(rule_of__footprint_makes_no_flow_sink_later_than_pias),
	};

	return cmocka_run_group_tests_name("footprint.h", tests, NULL, NULL);
}
