/*
 * What a message announces, by any rule and in any bytes.
 *
 * An input is a rule (struct qclimb_length_rule) and a message's first bytes. HTTP is read from them, and again by a plain
 * reader of lines; the rule foretells, and walks from message to message; candidates are proposed for some size. The
 * whole is also read as a file of rules.
 */
#include <stdlib.h>
#include <string.h>

#include <qclimb/length.h>
#include <qclimb/lengths.h>
#include <qclimb/propose.h>

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
	const uint64_t end = qclimb_length_walk(rule, head, size);

	REQUIRE(!told_bytes || (told_bytes >= (uint64_t)rule->offset + rule->width));
	REQUIRE(told_bytes <= QCLIMB_LENGTH_MAX_BYTES);
	REQUIRE(told_bytes ? end >= told_bytes : !end);
	REQUIRE(end <= QCLIMB_LENGTH_MAX_BYTES + size);
}

/* Each candidate foretells the size that it was proposed for. */
static void propose(const uint8_t *head, uint32_t size, uint64_t size_bytes)
{
	struct qclimb_candidate found[QCLIMB_CANDIDATES_MOST];
	const uint32_t count = qclimb_length_candidates(head, size, size_bytes, found);

	REQUIRE(count <= QCLIMB_CANDIDATES_MOST);
	for (uint32_t i = 0; i < count; i++) {
		const struct qclimb_length_rule rule = {
			.constant_bytes = found[i].constant_bytes,
			.offset = found[i].offset,
			.width = found[i].shape & ~QCLIMB_BIG_ENDIAN_SHAPE,
			.is_big_endian = found[i].shape / QCLIMB_BIG_ENDIAN_SHAPE,
		};

		REQUIRE(qclimb_length_rule_holds(&rule));
		REQUIRE(qclimb_length_foretell(&rule, head, size) == size_bytes);
	}
}

/* Whatever stands in a file: what is taken can be used. */
static void read_file(const uint8_t *bytes, uint32_t size)
{
	const int count = qclimb_lengths_verify(bytes, size);

	for (int i = 0; i < count; i++) {
		const struct qclimb_length_entry entry = qclimb_length_entry_at(bytes, (uint32_t)i);
		const struct qclimb_length_rule rule = qclimb_length_rule_of(&entry);

		REQUIRE(!rule.width || qclimb_length_rule_holds(&rule));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qclimb_length_rule rule;
	uint64_t size_bytes = 0;
	uint8_t *head;

	if (size < sizeof(rule))
		return 0;
	memcpy(&rule, data, sizeof(rule));
	size -= sizeof(rule);
	data += sizeof(rule);
	/* Of just this size, so that the sanitizer sees a read past its end. */
	head = malloc(size ? size : 1);
	REQUIRE(head);
	memcpy(head, data, size);
	read_http(head, (uint32_t)size);
	memcpy(&size_bytes, &rule, sizeof(size_bytes));
	propose(head, (uint32_t)size, size_bytes >> (size_bytes & 63));
	read_file(data - sizeof(rule), (uint32_t)(size + sizeof(rule)));
	if (qclimb_length_rule_holds(&rule))
		walk(&rule, head, (uint32_t)size);
	free(head);
	return 0;
}
