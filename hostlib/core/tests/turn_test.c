/* Where a write begins a flow. */
#include "unit.h"

#include <qclimb/turn.h>

static const struct qclimb_turn turned = {
	.written = 1000, .asked = 1000, .idle_ns = 10, .gap_ns = 5000, .is_acked = 1, .has_read = 1
};

static void begins_flow__after_a_turn_on_an_empty_path(void **state)
{
	(void)state;
	assert_true(qclimb_begins_flow(&turned));
}

static void begins_flow__not_while_bytes_are_under_way(void **state)
{
	struct qclimb_turn turn = turned;

	(void)state;
	turn.is_acked = 0;
	turn.idle_ns = UINT64_MAX;
	assert_false(qclimb_begins_flow(&turn));
}

static void begins_flow__without_a_turn_only_past_the_gap(void **state)
{
	struct qclimb_turn turn = turned;

	(void)state;
	turn.has_read = 0;
	turn.idle_ns = turn.gap_ns;
	assert_false(qclimb_begins_flow(&turn));
	turn.idle_ns++;
	assert_true(qclimb_begins_flow(&turn));
}

static void begins_flow__not_with_the_rest_of_a_short_call(void **state)
{
	struct qclimb_turn turn = turned;

	(void)state;
	turn.asked = turn.written + 1;
	assert_false(qclimb_begins_flow(&turn));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_flow__after_a_turn_on_an_empty_path),
		cmocka_unit_test(begins_flow__not_while_bytes_are_under_way),
		cmocka_unit_test(begins_flow__without_a_turn_only_past_the_gap),
		cmocka_unit_test(begins_flow__not_with_the_rest_of_a_short_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
