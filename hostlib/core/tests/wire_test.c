/* Priorities on packets and sockets. */
#include "unit.h"

#include <qclimb/wire.h>

static const uint8_t dscp[] = { 47, 43, 39, 35, 31, 27, 23, 19 };

static void default_dscp__is_pool_2_in_descending_precedence(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < 8; p++) {
		assert_int_equal(qclimb_default_dscp(p), dscp[p]);
		assert_int_equal(qclimb_default_dscp(p) & 3, 3); /* RFC 2474: xxxx11 is for local use */
	}
	assert_int_equal(qclimb_default_dscp(8), 19);
}

static void dscp_of__past_the_list_is_the_last(void **state)
{
	(void)state;
	assert_int_equal(qclimb_dscp_of(dscp, 8, 0), 47);
	assert_int_equal(qclimb_dscp_of(dscp, 8, 7), 19);
	assert_int_equal(qclimb_dscp_of(dscp, 8, 8), 19);
	assert_int_equal(qclimb_dscp_of(dscp, 3, UINT32_MAX), 39);
}

static void priority_of_dscp__is_the_inverse(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < 8; p++)
		assert_int_equal(qclimb_priority_of_dscp(dscp, 8, qclimb_dscp_of(dscp, 8, p)), p);
	assert_int_equal(qclimb_priority_of_dscp(dscp, 8, 46), QCLIMB_NO_PRIORITY);
	assert_int_equal(qclimb_priority_of_dscp(dscp, 2, 39), QCLIMB_NO_PRIORITY); /* listed, but not granted */
}

static void tos__keeps_the_ecn_bits(void **state)
{
	(void)state;
	for (uint8_t ecn = 0; ecn < 4; ecn++)
		assert_int_equal(qclimb_tos(47, (uint8_t)(0x48 | ecn)), 47 << 2 | ecn);
	assert_int_equal(qclimb_tos(0xff, 0), 0xfc);
}

static void so_priority__needs_no_rights(void **state)
{
	(void)state;
	assert_int_equal(qclimb_so_priority(0), 6);
	assert_int_equal(qclimb_so_priority(6), 0);
	assert_int_equal(qclimb_so_priority(63), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_dscp__is_pool_2_in_descending_precedence),
		cmocka_unit_test(dscp_of__past_the_list_is_the_last),
		cmocka_unit_test(priority_of_dscp__is_the_inverse),
		cmocka_unit_test(tos__keeps_the_ecn_bits),
		cmocka_unit_test(so_priority__needs_no_rights),
	};

	return cmocka_run_group_tests_name("wire.h", tests, NULL, NULL);
}
