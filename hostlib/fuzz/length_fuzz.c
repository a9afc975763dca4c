/*
 * What a message announces, by any rule and in any bytes.
 *
 * An input is a rule (struct qclimb_length_rule) and a message's first bytes. HTTP is read from them, and again by a plain
 * reader of lines; the rule foretells, and walks from message to message.
 */
#include <stdlib.h>
#include <string.h>

#include <qclimb/length.h>

#define REQUIRE(holds)                                                                                                 \
	do {                                                                                                           \
		if (!(holds))                                                                                          \
			abort();                                                                                       \
	} while (0)

/* Bytes of the header with its empty line, a byte at a time; 0: it does not end. */
static uint32_t header_bytes(const uint8_t *head, uint32_t size)
{
	for (uint32_t at = 0, line = 0; at < size && at < QCLIMB_HTTP_HEAD_BYTES; at++) {
		if (head[at] != '\n')
			continue;
		if (line && (at == line || (at == line + 1 && head[line] == '\r')))
			return at + 1;
		line = at + 1;
	}
	return 0;
}

static void read_http(const uint8_t *head, uint32_t size)
{
	for (int asked = QCLIMB_HTTP_OTHER; asked <= QCLIMB_HTTP_CONNECT; asked++) {
		const uint64_t told_bytes = qclimb_http_foretell(head, size, (enum qclimb_http_asked)asked);
		const uint32_t ended_bytes = header_bytes(head, size);

		REQUIRE(!told_bytes || (ended_bytes && told_bytes >= ended_bytes));
		REQUIRE(told_bytes <= QCLIMB_LENGTH_MAX_BYTES + QCLIMB_HTTP_HEAD_BYTES);
		if (asked == QCLIMB_HTTP_HEAD && size > 4 && !memcmp(head, "HTTP", 4))
			REQUIRE(!told_bytes || told_bytes == ended_bytes);
	}
}

static void walk(const struct qclimb_length_rule *rule, const uint8_t *head, uint32_t size)
{
	const uint64_t told_bytes = qclimb_length_foretell(rule, head, size);
	struct qclimb_frames frames = { 0 };

	REQUIRE(!told_bytes || (told_bytes >= (uint64_t)rule->offset + rule->width));
	REQUIRE(told_bytes <= QCLIMB_LENGTH_MAX_BYTES);
	qclimb_frames_turn(&frames, 1000, 1);
	qclimb_frames_walk(&frames, rule, 1000, head, size);
	REQUIRE(!told_bytes || frames.next == QCLIMB_UNKNOWN_BYTES || frames.next >= 1000 + told_bytes);
	REQUIRE(qclimb_frames_left(&frames, 1000 + (uint64_t)size) <= QCLIMB_LENGTH_MAX_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qclimb_length_rule rule;
	uint8_t *head;

	if (size < sizeof(rule))
		return 0;
	memcpy(&rule, data, sizeof(rule));
	size -= sizeof(rule);
	/* Of just this size, so that the sanitizer sees a read past its end. */
	head = malloc(size ? size : 1);
	REQUIRE(head);
	memcpy(head, data + sizeof(rule), size);
	read_http(head, (uint32_t)size);
	if (qclimb_length_rule_holds(&rule))
		walk(&rule, head, (uint32_t)size);
	free(head);
	return 0;
}
