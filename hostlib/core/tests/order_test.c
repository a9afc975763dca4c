/* Loss or overtaking: which SACKs of a flow that climbs are proof of a loss (tagger/order.h). */
#include "unit.h"

#include <string.h>

#include "../../tagger/order.h"

static uint16_t proves[ORDER_PRIORITIES];

/* One path: proof is what is served no earlier. */
static struct order begun(void)
{
	for (uint32_t p = 0; p < ORDER_PRIORITIES; p++)
		proves[p] = (uint16_t)(UINT16_MAX << p);
	return (struct order){ 0 };
}

/* From here on priority p takes path p mod `spines`. */
static void pin_to(uint32_t spines)
{
	for (uint32_t p = 0; p < ORDER_PRIORITIES; p++) {
		proves[p] = 0;
		for (uint32_t q = p; q < ORDER_PRIORITIES; q += spines)
			proves[p] |= (uint16_t)(1u << q);
	}
}

static uint32_t sends(struct order *order, uint64_t unacked, uint64_t position, uint64_t priority)
{
	return (uint32_t)order_send(order, proves, unacked, position, priority, 0);
}

static uint32_t sends_again(struct order *order, uint64_t unacked, uint64_t position, uint64_t next)
{
	return (uint32_t)order_send_again(order, proves, unacked, position, next);
}

/* Chunks of 10,000 bytes at 3, 2, 1 and 0, all on their way. */
static struct order climbed(void)
{
	struct order order = begun();

	for (uint32_t chunk = 0; chunk < 4; chunk++)
		for (uint32_t at = 0; at < 10000; at += 1000)
			assert_int_equal(sends(&order, 0, chunk * 10000 + at, 3 - chunk), 3 - chunk);
	return order;
}

/* How many blocks are left. */
static int shown(struct order *order, uint64_t acked, uint64_t proof, struct order_block *blocks, uint64_t count)
{
	int has_cut, has_told;

	return (int)order_show(order, acked, proof, blocks, count, &has_cut, &has_told);
}

/* How far a SACK of [start, end) is proof. */
static uint32_t proven(const struct order *order, uint64_t acked, uint64_t start, uint64_t end)
{
	const struct order_block blocks[ORDER_BLOCKS] = { { start, end } };

	return (uint32_t)order_proven(order, proves, acked, blocks);
}

static void proven__of_what_was_sent_later_at_the_same_priority(void **state)
{
	const struct order order = climbed();

	(void)state;
	assert_true(proven(&order, 2000, 3000, 4000) >= 4000);
	assert_int_equal(proven(&order, 2000, 3000, 25000), 10000);
}

static void proven__not_of_what_is_served_earlier(void **state)
{
	const struct order order = climbed();

	(void)state;
	assert_int_equal(proven(&order, 2000, 10000, 12000), 10000);
	assert_int_equal(proven(&order, 9000, 30000, 40000), 10000);
	assert_int_equal(proven(&order, 10000, 20000, 25000), 20000);
}

static void proven__of_what_is_served_later(void **state)
{
	struct order order = begun();

	(void)state;
	(void)sends(&order, 0, 0, 1);
	(void)sends(&order, 0, 10000, 2);
	(void)sends(&order, 0, 20000, 0);
	assert_int_equal(proven(&order, 5000, 12000, 13000), 20000);
	assert_int_equal(proven(&order, 5000, 12000, 25000), 20000);
	assert_int_equal(proven(&order, 5000, 20000, 25000), 10000);
}

static void proven__whatever_went_before_the_changes_that_are_remembered(void **state)
{
	struct order order = begun();

	(void)state;
	for (uint32_t change = 0; change <= ORDER_CHANGES; change++)
		(void)sends(&order, 0, change * 1000, change % 2 ? 1 : 2);
	assert_int_equal(proven(&order, 500, 3000, 4000), UINT32_MAX);
	assert_int_equal(proven(&order, 1500, 2000, 3000), 3000);
}

static void proven__by_its_own_path_alone(void **state)
{
	struct order order = begun();

	(void)state;
	pin_to(2);
	(void)sends(&order, 0, 0, 0);
	(void)sends(&order, 0, 10000, 1);
	(void)sends(&order, 0, 20000, 2);
	assert_int_equal(proven(&order, 5000, 11000, 12000), 10000);
	assert_true(proven(&order, 5000, 21000, 22000) > 22000);
}

static void proven__of_all_that_went_before_what_was_sent_again_and_came(void **state)
{
	struct order order = climbed();

	(void)state;
	assert_int_equal(sends_again(&order, 2000, 2000, 40000), 3);
	(void)sends(&order, 2000, 40000, 0);
	assert_int_equal(proven(&order, 2000, 20000, 25000), 10000);
	assert_int_equal(proven(&order, 15000, 25000, 26000), 40000);
}

static void proven__by_a_probe_of_the_tail_that_is_told_twice(void **state)
{
	struct order order = climbed();
	struct order_block before[ORDER_BLOCKS] = { { 20000, 40000 } };
	const struct order_block twice[ORDER_BLOCKS] = { { 39000, 40000 }, { 20000, 40000 } };

	(void)state;
	(void)shown(&order, 9000, 10000, before, 1);
	assert_int_equal(sends_again(&order, 9000, 39000, 40000), 3);
	assert_int_equal(proven(&order, 9000, 20000, 40000), 10000); /* that one may have come before the probe */
	assert_int_equal(order_proven(&order, proves, 9000, twice), 40000);
}

static void proven__by_a_probe_of_a_tail_that_had_been_lost(void **state)
{
	struct order order = climbed();
	struct order_block before[ORDER_BLOCKS] = { { 20000, 39000 } };

	(void)state;
	(void)shown(&order, 9000, 10000, before, 1);
	(void)sends_again(&order, 9000, 39000, 40000);
	assert_int_equal(proven(&order, 9000, 20000, 40000), 40000);
}

static void send_again__overtakes_nothing_that_is_on_its_way(void **state)
{
	struct order order = climbed();

	(void)state;
	assert_int_equal(sends_again(&order, 9000, 35000, 40000), 3);
	assert_int_equal(sends_again(&order, 12000, 35000, 40000), 2);
	assert_int_equal(sends_again(&order, 35000, 35000, 40000), 0);
}

static void send__goes_no_earlier_until_what_was_sent_again_is_acknowledged(void **state)
{
	struct order order = climbed();

	(void)state;
	(void)sends_again(&order, 9000, 9000, 40000);
	assert_int_equal(sends(&order, 9000, 40000, 0), 3);
	assert_int_equal(sends(&order, 39000, 41000, 0), 3);
	assert_int_equal(sends(&order, 40000, 42000, 0), 0);
	assert_int_equal(proven(&order, 40000, 42000, 43000), 42000); /* what went at the floor was overtaken */
}

static void send__probes_at_the_latest_priority_where_nothing_moves(void **state)
{
	struct order order = climbed();

	(void)state;
	assert_int_equal(order_send(&order, proves, 9000, 40000, 0, 1), 3);
	assert_int_equal(proven(&order, 9000, 20000, 30000), 10000);
	assert_true(proven(&order, 9000, 40000, 41000) > 41000);
}

static void send__probes_by_the_path_of_what_is_missing(void **state)
{
	struct order order = begun();

	(void)state;
	pin_to(2);
	(void)sends(&order, 0, 0, 2);
	(void)sends(&order, 0, 10000, 3);
	(void)sends(&order, 0, 20000, 0);
	assert_int_equal(order_send(&order, proves, 9000, 30000, 0, 1), 2);
}

static void show__cuts_at_what_is_proven_and_closes_up(void **state)
{
	struct order order = climbed();
	struct order_block blocks[ORDER_BLOCKS] = { { 20000, 30000 }, { 5000, 12000 }, { 2000, 3000 } };

	(void)state;
	assert_int_equal(shown(&order, 1000, 10000, blocks, 3), 2);
	assert_int_equal(blocks[0].start, 5000);
	assert_int_equal(blocks[0].end, 10000);
	assert_int_equal(blocks[1].start, 2000);
}

static void show__leaves_what_came_twice(void **state)
{
	struct order order = climbed();
	struct order_block blocks[ORDER_BLOCKS] = { { 500, 1000 }, { 12000, 13000 } };

	(void)state;
	assert_int_equal(shown(&order, 1000, 10000, blocks, 2), 1);
	assert_int_equal(blocks[0].end, 1000);
}

static void show__tells_what_was_hidden_once_it_is_proven_and_the_receiver_names_it_no_more(void **state)
{
	struct order order = climbed();
	struct order_block first[ORDER_BLOCKS] = { { 12000, 13000 } };
	struct order_block later[ORDER_BLOCKS] = { { 8000, 9000 }, { 6000, 7000 }, { 4000, 5000 } };
	struct order_block again[ORDER_BLOCKS] = { { 8000, 9000 }, { 6000, 7000 }, { 4000, 5000 } };

	(void)state;
	assert_int_equal(shown(&order, 2000, 10000, first, 1), 0);
	assert_int_equal(shown(&order, 3000, 10000, later, 3), 3);
	assert_int_equal(later[2].start, 4000);
	assert_int_equal(shown(&order, 3000, 40000, again, 3), 3);
	assert_int_equal(again[0].start, 8000);
	assert_int_equal(again[2].start, 12000);
	assert_int_equal(again[2].end, 13000);
	again[2] = (struct order_block){ 4000, 5000 };
	assert_int_equal(shown(&order, 3000, 40000, again, 3), 3);
	assert_int_equal(again[2].start, 4000); /* once */
}

static void show__makes_no_block_look_as_if_it_came_twice(void **state)
{
	struct order order = climbed();
	struct order_block hidden[ORDER_BLOCKS] = { { 12000, 18000 } };
	struct order_block blocks[ORDER_BLOCKS] = { { 14000, 15000 }, { 6000, 7000 } };

	(void)state;
	(void)shown(&order, 2000, 10000, hidden, 1);
	assert_int_equal(shown(&order, 2000, 40000, blocks, 2), 2);
	assert_int_equal(blocks[1].start, 6000);
}

/* What was received stays so: whatever is cut, remembered and told again, no SACK names a byte that none had named. */
static void show__names_nothing_that_no_sack_named(void **state)
{
	enum { BYTES = 400, ROUNDS = 20000 };
	struct order order = climbed();
	uint8_t has_come[BYTES] = { 0 };
	uint32_t drawn = 1, told = 0;

	(void)state;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct order_block blocks[ORDER_BLOCKS];
		uint64_t numbers[4 + 2 * ORDER_BLOCKS], acked, proof, count, left;
		int has_cut, has_told;

		for (uint32_t i = 0; i < 4 + 2 * ORDER_BLOCKS; i++) {
			drawn = drawn * 1664525 + 1013904223;
			numbers[i] = drawn >> 12;
		}
		acked = numbers[0] % (BYTES - 50);
		proof = acked + numbers[1] % 100;
		count = 1 + numbers[2] % ORDER_BLOCKS;
		for (uint32_t i = 0; i < count; i++) {
			blocks[i].start = acked + 1 + numbers[4 + i] % (BYTES - acked - 1);
			blocks[i].end = blocks[i].start + 1 + numbers[8 + i] % (BYTES - blocks[i].start);
			memset(has_come + blocks[i].start, 1, blocks[i].end - blocks[i].start);
		}
		left = order_show(&order, acked, proof, blocks, count, &has_cut, &has_told);
		assert_true(left <= count);
		told += (uint32_t)has_told;
		for (uint32_t i = 0; i < left; i++) {
			assert_true(blocks[i].start < blocks[i].end && blocks[i].end <= proof);
			assert_null(memchr(has_come + blocks[i].start, 0, blocks[i].end - blocks[i].start));
		}
		if (round % 10 == 0) { /* what comes next is of another stretch of the flow */
			order = climbed();
			memset(has_come, 0, sizeof(has_come));
		}
	}
	assert_true(told > ROUNDS / 100);
}

static void position__wraps_with_the_sequence_numbers(void **state)
{
	struct order order = begun();

	(void)state;
	order_begin(&order, UINT32_MAX - 10);
	assert_int_equal(order_sequence(&order, 20), 9);
	assert_int_equal(order_position(&order, 5, 9), 20);
	assert_int_equal(order_position(&order, 5000, UINT32_MAX - 7), 3);
	assert_true(order_position(&order, UINT64_C(9) << 32, 9) == (UINT64_C(9) << 32) + 20);
}

static void begin__forgets_the_sockets_last_connection(void **state)
{
	struct order order = climbed();

	(void)state;
	order_begin(&order, 0);
	assert_int_equal(order.changes, 4);
	order_begin(&order, 77);
	assert_int_equal(order.changes, 0);
	assert_int_equal(order.first, 77);
}

static void hide__counts_from_the_gaps_last_move(void **state)
{
	struct order order = climbed();

	(void)state;
	order_hide(&order, 1000, 5);
	order_hide(&order, 1000, 9);
	assert_int_equal(order.since_ns, 5);
	order_hide(&order, 2000, 12);
	assert_int_equal(order.since_ns, 12);
	assert_false(order_is_stalled(&order, 2000, 22, 10));
	assert_true(order_is_stalled(&order, 2000, 23, 10));
	assert_false(order_is_stalled(&order, 3000, 23, 10));
}

static void stalled__is_no_connection_of_which_nothing_was_hidden(void **state)
{
	struct order order = begun();

	(void)state;
	assert_false(order_is_stalled(&order, 0, 1000, 10));
	order_hide(&order, 0, 1000);
	assert_true(order_is_stalled(&order, 0, 1011, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proven__of_what_was_sent_later_at_the_same_priority),
		cmocka_unit_test(proven__not_of_what_is_served_earlier),
		cmocka_unit_test(proven__of_what_is_served_later),
		cmocka_unit_test(proven__whatever_went_before_the_changes_that_are_remembered),
		cmocka_unit_test(proven__by_its_own_path_alone),
		cmocka_unit_test(proven__of_all_that_went_before_what_was_sent_again_and_came),
		cmocka_unit_test(proven__by_a_probe_of_the_tail_that_is_told_twice),
		cmocka_unit_test(proven__by_a_probe_of_a_tail_that_had_been_lost),
		cmocka_unit_test(send_again__overtakes_nothing_that_is_on_its_way),
		cmocka_unit_test(send__goes_no_earlier_until_what_was_sent_again_is_acknowledged),
		cmocka_unit_test(send__probes_at_the_latest_priority_where_nothing_moves),
		cmocka_unit_test(send__probes_by_the_path_of_what_is_missing),
		cmocka_unit_test(show__cuts_at_what_is_proven_and_closes_up),
		cmocka_unit_test(show__leaves_what_came_twice),
		cmocka_unit_test(show__tells_what_was_hidden_once_it_is_proven_and_the_receiver_names_it_no_more),
		cmocka_unit_test(show__makes_no_block_look_as_if_it_came_twice),
		cmocka_unit_test(show__names_nothing_that_no_sack_named),
		cmocka_unit_test(position__wraps_with_the_sequence_numbers),
		cmocka_unit_test(begin__forgets_the_sockets_last_connection),
		cmocka_unit_test(hide__counts_from_the_gaps_last_move),
		cmocka_unit_test(stalled__is_no_connection_of_which_nothing_was_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
