/* Loss or overtaking: what a receiver may say of a gap (tagger/arrivals.h). */
#include "unit.h"

#include "../../tagger/arrivals.h"

#define MS UINT64_C(1000000)
#define START UINT32_C(4294960000) /* so that sequence numbers wrap within each test */

static struct silence silences[ARRIVALS_PRIORITIES];
static uint16_t proves[ARRIVALS_PRIORITIES];

static struct arrivals begun(void)
{
	struct arrivals flow;

	arrivals_start(&flow, START);
	for (int p = 0; p < ARRIVALS_PRIORITIES; p++)
		silences[p] = (struct silence){ 0 };
	for (uint32_t p = 0; p < ARRIVALS_PRIORITIES; p++)
		proves[p] = (uint16_t)(UINT16_MAX << p); /* one path: what is served no earlier */
	return flow;
}

/* From here on priority p takes path p mod `spines`. */
static void pin_to(uint32_t spines)
{
	for (uint32_t p = 0; p < ARRIVALS_PRIORITIES; p++) {
		proves[p] = 0;
		for (uint32_t q = p; q < ARRIVALS_PRIORITIES; q += spines)
			proves[p] |= (uint16_t)(1u << q);
	}
}

/* Bytes [from, to) of the flow come at a priority. */
static void come(struct arrivals *flow, uint32_t from, uint32_t to, uint32_t priority, uint64_t now)
{
	arrivals_note(flow, START + from, to - from, priority, now);
}

static int judged(struct arrivals *flow, uint32_t ack, uint64_t now)
{
	return (int)arrivals_judge(flow, silences, proves, START + ack, now);
}

static void judge__a_gap_within_a_priority_is_a_loss(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 11000, 12000, 3, 0);
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_LOST);
}

static void judge__what_a_priority_served_earlier_passed_is_overtaken(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 20000, 21000, 2, 0);
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_OVERTAKEN);
	come(&flow, 10000, 11000, 3, 0);
	assert_int_equal(judged(&flow, 11000, 0), VERDICT_OVERTAKEN);
}

static void judge__a_loss_in_the_overtaken_chunk_shows_when_the_chunk_goes_on(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 20000, 21000, 2, 0);
	come(&flow, 11000, 12000, 3, 0);
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_LOST);
}

static void judge__a_gap_before_a_demotion_is_a_loss(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 1, 0);
	come(&flow, 11000, 12000, 2, 0); /* served later than anything missing */
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_LOST);
}

static void judge__a_sack_of_what_came_twice_is_shown(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_LOST);
}

static void judge__the_hold_counts_from_the_gaps_last_move(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 20000, 21000, 2, 0);
	assert_int_equal(judged(&flow, 10000, 1 * MS), VERDICT_OVERTAKEN);
	come(&flow, 10000, 11000, 3, 5 * MS);
	assert_int_equal(judged(&flow, 11000, 1 * MS + HOLD_FIRST_NS + 1), VERDICT_OVERTAKEN);
	assert_int_equal(judged(&flow, 11000, 5 * MS + HOLD_FIRST_NS + 1), VERDICT_HELD);
}

static void judge__a_gap_that_closed_teaches_how_long_its_priority_was_silent(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 12000, 13000, 2, 0);
	assert_int_equal(judged(&flow, 10000, 1 * MS), VERDICT_OVERTAKEN);
	come(&flow, 10000, 11000, 3, 3 * MS);
	come(&flow, 11000, 12000, 3, 4 * MS);
	assert_bytes(silences[3].samples, 0);
	come(&flow, 15000, 16000, 1, 5 * MS);
	assert_int_equal(judged(&flow, 13000, 5 * MS), VERDICT_OVERTAKEN);
	assert_bytes(silences[3].samples, 1);
	assert_bytes(silences[3].mean_ns, 2 * MS); /* the longest of 2 and 1 ms */
	assert_bytes(silence_hold_ns(&silences[3]), 3 * MS);
}

static void judge__what_another_path_carries_proves_no_loss(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	pin_to(2);
	come(&flow, 0, 10000, 0, 0);
	come(&flow, 11000, 12000, 1, 0); /* served later, but by the other spine: the missing ones may be late here */
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_OVERTAKEN);
	come(&flow, 12000, 13000, 2, 0); /* the first spine again, and served later */
	assert_int_equal(judged(&flow, 10000, 0), VERDICT_LOST);
}

static void judge__what_is_lost_where_another_path_begins_shows_after_the_hold(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	pin_to(2);
	come(&flow, 0, 10000, 0, 0);
	come(&flow, 11000, 12000, 1, 0);
	assert_int_equal(judged(&flow, 10000, 1 * MS), VERDICT_OVERTAKEN);
	assert_int_equal(judged(&flow, 10000, 1 * MS + HOLD_FIRST_NS + 1), VERDICT_HELD);
}

static void judge__bytes_sent_again_by_any_path_close_a_gap_and_prove_nothing(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 20000, 21000, 2, 0);
	assert_int_equal(judged(&flow, 10000, 1 * MS), VERDICT_OVERTAKEN);
	come(&flow, 12000, 13000, ARRIVALS_PRIORITIES, 2 * MS);
	assert_int_equal(judged(&flow, 10000, 2 * MS), VERDICT_OVERTAKEN);
	come(&flow, 10000, 12000, ARRIVALS_PRIORITIES, 3 * MS);
	assert_bytes(flow.gap, (UINT64_C(1) << 32) + START + 12000);
	come(&flow, 30000, 31000, 1, 4 * MS);
	assert_int_equal(judged(&flow, 21000, 4 * MS), VERDICT_OVERTAKEN);
	for (int p = 0; p < ARRIVALS_PRIORITIES; p++)
		assert_bytes(silences[p].samples, 0);
}

static void judge__bytes_sent_again_teach_nothing(void **state)
{
	struct arrivals flow = begun();

	(void)state;
	come(&flow, 0, 10000, 3, 0);
	come(&flow, 11000, 12000, 2, 0);
	assert_int_equal(judged(&flow, 10000, 1 * MS), VERDICT_OVERTAKEN);
	come(&flow, 10000, 11000, 0, 60 * MS);
	come(&flow, 13000, 14000, 1, 61 * MS);
	(void)judged(&flow, 12000, 61 * MS);
	assert_bytes(silences[3].samples, 0);
}

static void hold__stays_within_its_bounds(void **state)
{
	struct silence silence = { 0 };

	(void)state;
	assert_bytes(silence_hold_ns(&silence), HOLD_FIRST_NS);
	silence_note(&silence, 1);
	assert_bytes(silence_hold_ns(&silence), HOLD_LEAST_NS);
	for (int i = 0; i < 100; i++)
		silence_note(&silence, UINT64_MAX);
	assert_bytes(silence_hold_ns(&silence), HOLD_MOST_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judge__a_gap_within_a_priority_is_a_loss),
		cmocka_unit_test(judge__what_a_priority_served_earlier_passed_is_overtaken),
		cmocka_unit_test(judge__a_loss_in_the_overtaken_chunk_shows_when_the_chunk_goes_on),
		cmocka_unit_test(judge__a_gap_before_a_demotion_is_a_loss),
		cmocka_unit_test(judge__a_sack_of_what_came_twice_is_shown),
		cmocka_unit_test(judge__the_hold_counts_from_the_gaps_last_move),
		cmocka_unit_test(judge__a_gap_that_closed_teaches_how_long_its_priority_was_silent),
		cmocka_unit_test(judge__what_another_path_carries_proves_no_loss),
		cmocka_unit_test(judge__what_is_lost_where_another_path_begins_shows_after_the_hold),
		cmocka_unit_test(judge__bytes_sent_again_by_any_path_close_a_gap_and_prove_nothing),
		cmocka_unit_test(judge__bytes_sent_again_teach_nothing),
		cmocka_unit_test(hold__stays_within_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
