/* What messages announce: learned rules, HTTP, and walks from message to message. */
#include <string.h>

#include "unit.h"

#include <qclimb/length.h>

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
	struct qclimb_length_rule tagged = parameters;

	(void)state;
	assert_bytes(qclimb_length_foretell(&parameters, head, 15), 0); /* too little of it is seen */
	assert_bytes(qclimb_length_foretell(&parameters, head, 16), 16);
	assert_bytes(qclimb_length_foretell(&spark, head, 16), 0); /* shorter than its own length field */
	memset(head, 0xff, 8);
	assert_bytes(qclimb_length_foretell(&spark, head, 16), 0); /* nobody sends that much */
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

static void frames__an_announced_rest_outlives_a_turn(void **state)
{
	struct qclimb_frames frames = { 0 };

	(void)state;
	qclimb_frames_turn(&frames, 0, 0);
	qclimb_frames_step(&frames, 200 + 5000);
	assert_bytes(qclimb_frames_left(&frames, 0), 5200);
	qclimb_frames_turn(&frames, 200, 1); /* 100 Continue came */
	assert_bytes(qclimb_frames_left(&frames, 200), 5000);
	assert_bytes(qclimb_frames_left(&frames, 5200), 0);
	qclimb_frames_turn(&frames, 200, 0); /* or another message begins */
	assert_bytes(qclimb_frames_left(&frames, 200), 0);
}

static void frames__walks_from_message_to_message(void **state)
{
	struct qclimb_frames frames = { 0 };
	uint8_t shown[100] = { 0 };

	(void)state;
	shown[12] = 10; /* 26 bytes, then one of 16, then one of 116 that is not whole in this write */
	shown[26 + 16 + 12] = 100;
	qclimb_frames_turn(&frames, 1000, 0);
	qclimb_frames_walk(&frames, &parameters, 1000, shown, sizeof(shown));
	assert_bytes(frames.next, 1000 + 26 + 16 + 116);
	assert_bytes(qclimb_frames_left(&frames, 1100), 58);
	qclimb_frames_walk(&frames, &parameters, 1100, shown, 58); /* its rest: no message begins there */
	assert_bytes(frames.next, 1158);
}

static void frames__out_of_step_until_the_next_turn(void **state)
{
	struct qclimb_frames frames = { 0 };
	uint8_t shown[16] = { 0 };

	(void)state;
	qclimb_frames_walk(&frames, &spark, 0, shown, sizeof(shown));
	assert_bytes(frames.next, QCLIMB_UNKNOWN_BYTES);
	assert_bytes(qclimb_frames_left(&frames, 16), 0);
	qclimb_frames_walk(&frames, &parameters, 16, shown, sizeof(shown));
	assert_bytes(frames.next, QCLIMB_UNKNOWN_BYTES);
	qclimb_frames_turn(&frames, 32, 1);
	qclimb_frames_walk(&frames, &parameters, 32, shown, sizeof(shown));
	assert_bytes(frames.next, 48);
}

static void join__raises_the_lower_bound_and_closes_exact_ones(void **state)
{
	struct qclimb_bounds bounds = { 100, QCLIMB_UNKNOWN_BYTES, 50 };

	(void)state;
	qclimb_length_join(&bounds, 0, 0, 1);
	qclimb_length_join(&bounds, 999, 1000, 1); /* more was asked for: it was wrong */
	assert_bytes(bounds.lower_bytes, 100);
	assert_bytes(bounds.upper_bytes, QCLIMB_UNKNOWN_BYTES);
	qclimb_length_join(&bounds, 1000, 200, 0);
	assert_bytes(bounds.lower_bytes, 1000);
	assert_bytes(bounds.upper_bytes, QCLIMB_UNKNOWN_BYTES);
	qclimb_length_join(&bounds, 1000, 200, 1);
	assert_bytes(bounds.upper_bytes, 1000);
	assert_bytes(bounds.slack_bytes, 50);
	qclimb_length_join(&bounds, 2000, 200, 0);
	assert_bytes(bounds.upper_bytes, 2000);
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
		cmocka_unit_test(frames__an_announced_rest_outlives_a_turn),
		cmocka_unit_test(frames__walks_from_message_to_message),
		cmocka_unit_test(frames__out_of_step_until_the_next_turn),
		cmocka_unit_test(join__raises_the_lower_bound_and_closes_exact_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
