/* What a damaged or impossible policy file meets; and the sizes that the Python twins rely on. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <qclimb/policy.h>
#include <qclimb/record.h>

_Static_assert(sizeof(struct qclimb_policy) == 648, "policy");
_Static_assert(offsetof(struct qclimb_policy, crc32) == 644, "policy");
_Static_assert(sizeof(struct qclimb_record_header) == 24, "record header");
_Static_assert(sizeof(struct qclimb_record) == 216, "record");

static struct qclimb_policy policy;

static int set_up(void **state)
{
	(void)state;
	qclimb_policy_default(&policy);
	return 0;
}

/* The verdict on `policy` with a checksum that fits. */
static int sealed(void)
{
	policy.crc32 = qclimb_crc32(&policy, offsetof(struct qclimb_policy, crc32));
	return qclimb_policy_verify(&policy, sizeof(policy));
}

static void crc32__agrees_with_zlib(void **state)
{
	static uint8_t bytes[5003]; /* long enough for the table, and no multiple of eight */

	(void)state;
	assert_int_equal(qclimb_crc32("123456789", 9), 0xcbf43926u); /* the published check value */
	assert_int_equal(qclimb_crc32("", 0), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	assert_int_equal(qclimb_crc32(bytes, 255),
			 0x89b9aecbu); /* zlib.crc32(bytes(i * 7 % 256 for i in range(255))) */
	assert_int_equal(qclimb_crc32(bytes, sizeof(bytes)), 0xd2fa00f8u);
}

static void default__is_valid_pias(void **state)
{
	(void)state;
	assert_int_equal(qclimb_policy_verify(&policy, sizeof(policy)), 0);
	assert_int_equal(policy.mode, QCLIMB_PIAS);
	assert_bytes(policy.threshold_bytes[1], 46 * 1460);
	assert_int_equal(policy.dscp[7], 19);
}

static void verify__length(void **state)
{
	(void)state;
	assert_int_equal(qclimb_policy_verify(&policy, sizeof(policy) - 1), -EMSGSIZE);
	assert_int_equal(qclimb_policy_verify(&policy, sizeof(policy) + 1), -EMSGSIZE);
	assert_int_equal(qclimb_policy_verify(&policy, 0), -EMSGSIZE);
}

static void verify__kind_and_version(void **state)
{
	(void)state;
	policy.magic ^= 1;
	assert_int_equal(sealed(), -EINVAL);
	policy.magic ^= 1;
	policy.version = 2;
	assert_int_equal(sealed(), -EPROTONOSUPPORT);
	policy.version = 1;
	policy.struct_bytes++;
	assert_int_equal(sealed(), -EPROTONOSUPPORT);
}

static void verify__any_flipped_bit_is_seen(void **state)
{
	uint8_t *byte = (uint8_t *)&policy;

	(void)state;
	for (size_t bit = 0; bit < sizeof(policy) * 8; bit++) {
		byte[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(qclimb_policy_verify(&policy, sizeof(policy)), 0);
		byte[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(qclimb_policy_verify(&policy, sizeof(policy)), 0);
}

#define REFUSED(change)                                                                                                \
	do {                                                                                                           \
		qclimb_policy_default(&policy);                                                                        \
		change;                                                                                                \
		assert_int_equal(sealed(), -EINVAL);                                                                   \
	} while (0)

static void verify__impossible_fields(void **state)
{
	(void)state;
	REFUSED(policy.mode = 4);
	REFUSED(policy.flags = 64);
	REFUSED(policy.priorities = 0);
	REFUSED(policy.priorities = 65);
	REFUSED(policy.priorities = UINT32_MAX);
	REFUSED(policy.priorities = 9); /* a ninth priority without a threshold */
	REFUSED(policy.priorities = 7); /* an unused threshold that is set */
	REFUSED(policy.threshold_bytes[0] = 1);
	REFUSED(policy.threshold_bytes[1] = 0);
	REFUSED(policy.threshold_bytes[3] = policy.threshold_bytes[2]);
	REFUSED(policy.threshold_bytes[7] = UINT64_MAX);
	REFUSED(policy.dscp[3] = 64);
	REFUSED(policy.dscp[3] = 255);
	REFUSED(policy.dscp[3] = policy.dscp[5]);
	REFUSED(policy.promote_wait_us = 10000001);
	REFUSED(policy.spines = 2); /* seven priorities before the last make no rows of two */
	REFUSED(policy.spines = 64);
	REFUSED(policy.unpinned_dscp = policy.dscp[3]);
	REFUSED(policy.unpinned_dscp = 64);
}

static void path__rows_of_spines_and_the_last_one_balanced(void **state)
{
	(void)state;
	assert_int_equal(qclimb_policy_path(&policy, 0), QCLIMB_BALANCED); /* one path */
	assert_true(qclimb_policy_shares_path(&policy, 0, 7));
	policy.spines = 7;
	policy.unpinned_dscp = 51;
	assert_int_equal(sealed(), 0);
	assert_int_equal(qclimb_policy_path(&policy, 0), 0);
	assert_int_equal(qclimb_policy_path(&policy, 6), 6);
	assert_int_equal(qclimb_policy_path(&policy, 7), QCLIMB_BALANCED);
	assert_false(qclimb_policy_shares_path(&policy, 0, 1));
	policy.priorities = 7; /* two rows of three, and the last */
	policy.threshold_bytes[7] = UINT64_MAX;
	policy.spines = 3;
	assert_int_equal(sealed(), 0);
	assert_int_equal(qclimb_policy_path(&policy, 4), 1);
	assert_true(qclimb_policy_shares_path(&policy, 1, 4));
	assert_false(qclimb_policy_shares_path(&policy, 4, 6));
	policy.priorities = 1; /* spines without a row */
	policy.spines = 2;
	for (uint32_t p = 1; p < QCLIMB_MAX_PRIORITIES; p++)
		policy.threshold_bytes[p] = UINT64_MAX;
	assert_int_equal(sealed(), -EINVAL);
}

static void verify__sixty_four_priorities(void **state)
{
	(void)state;
	policy.priorities = QCLIMB_MAX_PRIORITIES;
	for (uint32_t p = 0; p < QCLIMB_MAX_PRIORITIES; p++) {
		policy.threshold_bytes[p] = p * UINT64_C(1000);
		policy.dscp[p] = (uint8_t)(63 - p);
	}
	assert_int_equal(sealed(), 0);
}

static void verify__one_priority(void **state)
{
	(void)state;
	policy.priorities = 1;
	for (uint32_t p = 1; p < QCLIMB_MAX_PRIORITIES; p++)
		policy.threshold_bytes[p] = UINT64_MAX;
	assert_int_equal(sealed(), 0);
}

/* Bytes from a generator, in a heap block of just that size, so that the sanitizer sees a read past it. */
static void verify__random_bytes_never_pass(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		const size_t len = round % 3 ? sizeof(policy) : (size_t)round;
		uint8_t *bytes = malloc(len ? len : 1);

		assert_non_null(bytes);
		for (size_t i = 0; i < len; i++) {
			random = random * 1664525 + 1013904223;
			bytes[i] = (uint8_t)(random >> 24);
		}
		if (len >= 8 && round % 2)
			memcpy(bytes, &policy, 8); /* gets past the kind */
		assert_int_not_equal(qclimb_policy_verify(bytes, len), 0);
		free(bytes);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
	const struct CMUnitTest tests[] = {
		TEST(crc32__agrees_with_zlib),
		TEST(default__is_valid_pias),
		TEST(verify__length),
		TEST(verify__kind_and_version),
		TEST(verify__any_flipped_bit_is_seen),
		TEST(verify__impossible_fields),
		TEST(path__rows_of_spines_and_the_last_one_balanced),
		TEST(verify__sixty_four_priorities),
		TEST(verify__one_priority),
		TEST(verify__random_bytes_never_pass),
	};

	return cmocka_run_group_tests_name("policy.h, crc32.h, record.h", tests, NULL, NULL);
}
