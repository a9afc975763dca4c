/* What messages announce: learned rules, HTTP, and walks from message to message. */
#include <string.h>

#include "unit.h"

#include <qclimb/length.h>
#include <qclimb/lengths.h>
#include <qclimb/propose.h>

/* A parameter server: four u32 LE, the last of them the body's bytes. Spark: u64 BE, the frame and itself. */
static const struct qclimb_length_rule parameters = { .offset = 12, .width = 4, .constant_bytes = 16 };
static const struct qclimb_length_rule spark = { .offset = 0, .width = 8, .is_big_endian = 1 };

static uint64_t http(const char *head, enum qclimb_http_asked asked)
{
	return qclimb_http_foretell((const uint8_t *)head, (uint32_t)strlen(head), asked);
}

static void rule_holds__within_64_bytes_and_4096(void **state)
{
	struct qclimb_length_rule rule = { .offset = 56, .width = 8, .constant_bytes = -4096 };

	(void)state;
	assert_true(qclimb_length_rule_holds(&rule));
	rule.offset = 57;
	assert_false(qclimb_length_rule_holds(&rule));
	rule = parameters;
	rule.width = 5;
	assert_false(qclimb_length_rule_holds(&rule));
	rule = parameters;
	rule.constant_bytes = 4097;
	assert_false(qclimb_length_rule_holds(&rule));
	rule = parameters;
	rule.tag_offset = 64;
	assert_false(qclimb_length_rule_holds(&rule));
}

static void foretell__reads_each_width_in_each_order(void **state)
{
	static const uint8_t head[] = { 0, 0, 0, 1, 2, 3, 0, 0 };
	struct qclimb_length_rule rule = { .offset = 2, .width = 2, .is_big_endian = 1, .constant_bytes = 4 };

	(void)state;
	assert_bytes(qclimb_length_foretell(&rule, head, sizeof(head)), 0x0001 + 4);
	rule.is_big_endian = 0;
	assert_bytes(qclimb_length_foretell(&rule, head, sizeof(head)), 0x0100 + 4);
	rule.width = 3;
	assert_bytes(qclimb_length_foretell(&rule, head, sizeof(head)), 0x020100 + 4);
	rule.is_big_endian = 1;
	assert_bytes(qclimb_length_foretell(&rule, head, sizeof(head)), 0x000102 + 4);
	assert_bytes(qclimb_length_foretell(&spark, head, sizeof(head)), 0x0102030000);
}

static void foretell__says_nothing_of_what_is_no_length(void **state)
{
	uint8_t head[16] = { 0 };
	struct qclimb_length_rule tagged = parameters, null = parameters;
	uint8_t all_ones[16];

	(void)state;
	assert_bytes(qclimb_length_foretell(&parameters, head, 15), 0); /* too little of it is seen */
	assert_bytes(qclimb_length_foretell(&parameters, head, 16), 16);
	assert_bytes(qclimb_length_foretell(&spark, head, 16), 0); /* shorter than its own length field */
	memset(head, 0xff, 8);
	assert_bytes(qclimb_length_foretell(&spark, head, 16), 0); /* nobody sends that much */
	memset(all_ones, 0xff, sizeof(all_ones));
	assert_bytes(qclimb_length_foretell(&null, all_ones, 16), 0); /* -1: there is no body */
	tagged.has_tag = 1;
	tagged.tag = 4;
	assert_bytes(qclimb_length_foretell(&tagged, head, 16), 0); /* another type of message */
	head[0] = 4;
	assert_bytes(qclimb_length_foretell(&tagged, head, 16), 16);
}

static void http__counts_header_and_body(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 1234\r\n\r\n";
	static const char request[] = "PUT /a HTTP/1.1\r\nHost: b\r\ncontent-length:7 \r\nExpect: 100-continue\r\n\r\n";

	(void)state;
	assert_bytes(http(answer, QCLIMB_HTTP_OTHER), strlen(answer) + 1234);
	assert_bytes(http(request, QCLIMB_HTTP_OTHER), strlen(request) + 7);
	assert_bytes(http("GET / HTTP/1.0\n\n", QCLIMB_HTTP_OTHER), 16);
}

static void http__knows_messages_without_a_body(void **state)
{
	static const char *const without[] = {
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
	};
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n";

	(void)state;
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		assert_bytes(http(without[i], QCLIMB_HTTP_OTHER), strlen(without[i]));
	assert_bytes(http(answer, QCLIMB_HTTP_HEAD), strlen(answer));
	assert_int_equal(qclimb_http_method((const uint8_t *)"HEAD /a", 7), QCLIMB_HTTP_HEAD);
	assert_int_equal(qclimb_http_method((const uint8_t *)"CONNECT a", 9), QCLIMB_HTTP_CONNECT);
	assert_int_equal(qclimb_http_method((const uint8_t *)"GET /a", 6), QCLIMB_HTTP_OTHER);
}

static void http__says_nothing_where_the_header_does_not_tell(void **state)
{
	static const char *const untold[] = {
		"HTTP/1.1 200 OK\r\n\r\n", /* until the connection's end */
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", /* it goes on in another write */
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\n\r\n",
		"get a\r\n\r\n",
		"*3\r\n$3\r\nSET\r\n\r\n",
		"\n",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		assert_bytes(http(untold[i], QCLIMB_HTTP_OTHER), 0);
	assert_bytes(http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", QCLIMB_HTTP_CONNECT), 0);
}

static void walk__goes_from_message_to_message(void **state)
{
	uint8_t shown[100] = { 0 };

	(void)state;
	shown[12] = 10; /* 26 bytes, then one of 16, then one of 116 that is not whole in this write */
	shown[26 + 16 + 12] = 100;
	assert_bytes(qclimb_length_walk(&parameters, shown, sizeof(shown)), 26 + 16 + 116);
	assert_bytes(qclimb_length_walk(&parameters, shown, 26 + 16), 26 + 16);
	assert_bytes(qclimb_length_walk(&parameters, shown, 26 + 16 + 15),
		     26 + 16); /* the third one's length is not shown */
	assert_bytes(qclimb_length_walk(&parameters, shown, 20), 26);
}

static void walk__ends_where_nobody_knows(void **state)
{
	uint8_t shown[40] = { 0 };

	(void)state;
	assert_bytes(qclimb_length_walk(&spark, shown, sizeof(shown)), 0);
	shown[7] = 12;
	assert_bytes(qclimb_length_walk(&spark, shown, sizeof(shown)), 12); /* a frame of length 0 is none */
}

static void assert_range(const char *text, uint16_t first, uint16_t last)
{
	const struct qclimb_port_range range = qclimb_port_range_of(text, strlen(text));

	assert_int_equal(range.first, first);
	assert_int_equal(range.last, last);
}

static void ports__of_the_kernels_choice_are_one(void **state)
{
	const struct qclimb_port_range range = qclimb_port_range_of("10240\t60999\n", 12);

	(void)state;
	assert_int_equal(qclimb_length_port(10239, range), 10239);
	assert_int_equal(qclimb_length_port(10240, range), 0);
	assert_int_equal(qclimb_length_port(60999, range), 0);
	assert_int_equal(qclimb_length_port(61000, range), 61000);
	assert_range("1 1", 1, 1);
	assert_range("", 32768, 65535);
	assert_range("32768", 32768, 65535);
	assert_range("0 60999\n", 32768, 65535);
	assert_range("60999 32768\n", 32768, 65535);
	assert_range("10240 65536\n", 32768, 65535);
	assert_range("10240 60999 7\n", 32768, 65535);
	assert_range("-1 60999", 32768, 65535);
	assert_range("102400 609990", 32768, 65535);
}

static struct qclimb_candidate candidates[QCLIMB_CANDIDATES_MOST];

static uint64_t foretold(const struct qclimb_candidate *candidate, const uint8_t *head, uint32_t head_bytes)
{
	const struct qclimb_length_rule rule = {
		.constant_bytes = candidate->constant_bytes,
		.offset = candidate->offset,
		.width = candidate->shape & ~QCLIMB_BIG_ENDIAN_SHAPE,
		.is_big_endian = candidate->shape / QCLIMB_BIG_ENDIAN_SHAPE,
	};

	assert_true(qclimb_length_rule_holds(&rule));
	return qclimb_length_foretell(&rule, head, head_bytes);
}

static void candidates__foretell_the_flow_and_the_widest_comes_first(void **state)
{
	uint8_t head[64];
	uint32_t count;

	(void)state;
	memset(head, 0xee, sizeof(head));
	memset(head, 0, 8);
	head[5] = 1; /* 65,536 + 300, and the frame counts itself */
	head[6] = 1;
	head[7] = 44;
	count = qclimb_length_candidates(head, sizeof(head), 65836, candidates);
	assert_true(count >= 3);
	assert_int_equal(candidates[0].offset, 0);
	assert_int_equal(candidates[0].shape, 8 | QCLIMB_BIG_ENDIAN_SHAPE);
	assert_int_equal(candidates[0].constant_bytes, 0);
	for (uint32_t i = 0; i < count; i++)
		assert_bytes(foretold(&candidates[i], head, sizeof(head)), 65836);
}

static void candidates__are_bounded_and_see_only_what_is_shown(void **state)
{
	uint8_t head[64] = { 0 };

	(void)state;
	assert_int_equal(qclimb_length_candidates(head, sizeof(head), 100, candidates), QCLIMB_CANDIDATES_MOST);
	for (uint32_t i = 0; i < QCLIMB_CANDIDATES_MOST; i++)
		assert_bytes(foretold(&candidates[i], head, sizeof(head)), 100);
	assert_int_equal(qclimb_length_candidates(head, 1, 100, candidates), 0);
	assert_int_equal(qclimb_length_candidates(head, sizeof(head), 1 << 20, candidates), 0);
	head[63] = 9;
	assert_int_equal(qclimb_length_candidates(head, 63, UINT64_C(9) << 8, candidates), QCLIMB_CANDIDATES_MOST);
}

static _Alignas(8) char file[sizeof(struct qclimb_lengths_header) + sizeof(struct qclimb_length_entry) + 4];

/* A file of one entry, with a checksum that is right. */
static void write_file(const struct qclimb_length_entry *entry)
{
	const struct qclimb_lengths_header header = { QCLIMB_LENGTHS_MAGIC, QCLIMB_LENGTHS_VERSION, sizeof(*entry), 1,
						      0 };
	uint32_t crc;

	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), entry, sizeof(*entry));
	crc = qclimb_crc32(file, sizeof(file) - sizeof(crc));
	memcpy(file + sizeof(file) - sizeof(crc), &crc, sizeof(crc));
}

static void lengths__a_whole_file_is_taken_and_no_other(void **state)
{
	struct qclimb_length_entry entry = { .comm = "a", .state = QCLIMB_LENGTH_IN_FORCE, .width = 4 };

	(void)state;
	write_file(&entry);
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), 1);
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file) - 1), -EMSGSIZE);
	assert_int_equal(qclimb_lengths_verify(file, 8), -EMSGSIZE);
	file[sizeof(file) - 6]++;
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), -EBADMSG);
	file[4]++;
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), -EPROTONOSUPPORT);
	file[0]++;
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), -EINVAL);
}

static void lengths__an_entry_without_a_rule_that_holds_is_refused(void **state)
{
	const struct qclimb_length_entry good = { .comm = "a", .state = QCLIMB_LENGTH_IN_FORCE };
	struct qclimb_length_entry bad[5];

	(void)state;
	write_file(&good);
	assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), 1);
	for (int i = 0; i < 5; i++)
		bad[i] = good;
	bad[0].width = 5;
	bad[1].state = QCLIMB_LENGTH_IN_FORCE + 1;
	bad[2].role = 2;
	memset(bad[3].comm, 'a', sizeof(bad[3].comm));
	bad[4].width = 4;
	bad[4].offset = 61;
	for (int i = 0; i < 5; i++) {
		write_file(&bad[i]);
		assert_int_equal(qclimb_lengths_verify(file, sizeof(file)), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rule_holds__within_64_bytes_and_4096),
		cmocka_unit_test(foretell__reads_each_width_in_each_order),
		cmocka_unit_test(foretell__says_nothing_of_what_is_no_length),
		cmocka_unit_test(http__counts_header_and_body),
		cmocka_unit_test(http__knows_messages_without_a_body),
		cmocka_unit_test(http__says_nothing_where_the_header_does_not_tell),
		cmocka_unit_test(walk__goes_from_message_to_message),
		cmocka_unit_test(walk__ends_where_nobody_knows),
		cmocka_unit_test(ports__of_the_kernels_choice_are_one),
		cmocka_unit_test(candidates__foretell_the_flow_and_the_widest_comes_first),
		cmocka_unit_test(candidates__are_bounded_and_see_only_what_is_shown),
		cmocka_unit_test(lengths__a_whole_file_is_taken_and_no_other),
		cmocka_unit_test(lengths__an_entry_without_a_rule_that_holds_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
