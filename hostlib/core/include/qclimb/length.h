/*
 * The size of a message as its protocol writes it into the first bytes: a learned rule for binary protocols, HTTP/1.x
 * as it stands (RFC 9112, section 6.3). Knows nothing of sockets and reads only the bytes that it is shown.
 *
 * A size that is foretold counts the message's first byte and its last. What can't be a length says nothing: a message
 * shorter than its own length field, one beyond QCLIMB_LENGTH_MAX_BYTES, a length of -1, a body whose end is told
 * elsewhere.
 * Invariant: no byte at or after head[head_bytes] is read, whatever the rule or the bytes.
 */
#ifndef QCLIMB_LENGTH_H
#define QCLIMB_LENGTH_H

#include <stdint.h>

#include "layout.h"
#include "priority.h"

#define QCLIMB_LENGTH_HEAD_BYTES 64 /* of a message: as far as a rule looks */
#define QCLIMB_LENGTH_MAX_CONSTANT 4096
#define QCLIMB_LENGTHS_MOST 1024 /* rules of a host */
#define QCLIMB_LENGTH_MAX_BYTES (UINT64_C(1) << 48)
#define QCLIMB_HTTP_HEAD_BYTES 4096

/* size = the number at `offset` + constant_bytes, in messages whose byte at tag_offset is `tag`, if has_tag. */
struct qclimb_length_rule {
	int16_t constant_bytes; /* within QCLIMB_LENGTH_MAX_CONSTANT of 0 */
	uint8_t offset;
	uint8_t width; /* bytes of the number: 2, 3, 4 or 8 */
	uint8_t is_big_endian;
	uint8_t has_tag, tag_offset, tag;
};

/* Ports that the kernel chooses for whoever asks for none, both ends among them (Linux: ip_local_port_range). */
struct qclimb_port_range {
	uint16_t first, last;
};

/* The port by which a service is known: those of the kernel's choice are one (qclimb/lengths.py). */
static inline uint16_t qclimb_length_port(uint16_t port, struct qclimb_port_range kernels)
{
	return port >= kernels.first && port <= kernels.last ? 0 : port;
}

/* Of an entry of the file that libraries read (lengths.h). */
static inline struct qclimb_length_rule qclimb_length_rule_of(const struct qclimb_length_entry *entry)
{
	const struct qclimb_length_rule rule = {
		entry->constant_bytes, entry->offset,	  entry->width, entry->is_big_endian,
		entry->has_tag,	       entry->tag_offset, entry->tag
	};

	return rule;
}

/* The method of the request that an answer answers, where it changes what the answer's length means. */
enum qclimb_http_asked { QCLIMB_HTTP_OTHER, QCLIMB_HTTP_HEAD, QCLIMB_HTTP_CONNECT };

/* Whether the rule may be used: it looks at QCLIMB_LENGTH_HEAD_BYTES at most. */
static inline int qclimb_length_rule_holds(const struct qclimb_length_rule *rule)
{
	if (rule->width != 2 && rule->width != 3 && rule->width != 4 && rule->width != 8)
		return 0;
	if (rule->offset + rule->width > QCLIMB_LENGTH_HEAD_BYTES)
		return 0;
	if (rule->constant_bytes > QCLIMB_LENGTH_MAX_CONSTANT || rule->constant_bytes < -QCLIMB_LENGTH_MAX_CONSTANT)
		return 0;
	return rule->tag_offset < QCLIMB_LENGTH_HEAD_BYTES && rule->is_big_endian <= 1 && rule->has_tag <= 1;
}

/* The number of `width` <= 8 bytes that begins at `at`. */
static inline uint64_t qclimb_length_number(const uint8_t *at, uint32_t width, int is_big_endian)
{
	uint64_t number = 0;

	for (uint32_t i = 0; i < 8 && i < width; i++)
		number |= (uint64_t)at[i] << (8 * (is_big_endian ? width - 1 - i : i));
	return number;
}

/* The size of the message that begins at head[0], by a rule that holds. 0: the rule says nothing of it. */
static inline uint64_t qclimb_length_foretell(const struct qclimb_length_rule *rule, const uint8_t *head,
					      uint32_t head_bytes)
{
	const uint32_t end = (uint32_t)rule->offset + rule->width;
	uint64_t number, size_bytes;

	if (end > head_bytes)
		return 0;
	if (rule->has_tag && (rule->tag_offset >= head_bytes || head[rule->tag_offset] != rule->tag))
		return 0;
	number = qclimb_length_number(head + rule->offset, rule->width, rule->is_big_endian);
	if (number > QCLIMB_LENGTH_MAX_BYTES || number == UINT64_MAX >> (64 - 8 * rule->width))
		return 0; /* -1 is how Java's protocols write that there is nothing */
	size_bytes = number + (uint64_t)(int64_t)rule->constant_bytes; /* below 0 it wraps beyond the maximum */
	return size_bytes >= end && size_bytes <= QCLIMB_LENGTH_MAX_BYTES ? size_bytes : 0;
}

/* The index of the first line feed from `at` on; `end` if there is none. */
static inline uint32_t qclimb_http_line_end(const uint8_t *head, uint32_t at, uint32_t end)
{
#if !defined(__bpf__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	const uint64_t ones = UINT64_C(0x0101010101010101);

	for (; at + 8 <= end; at += 8) {
		uint64_t word, found;

		__builtin_memcpy(&word, head + at, sizeof(word));
		word ^= ones * '\n';
		found = (word - ones) & ~word & (ones << 7);
		if (found) /* the lowest bit set is a zero byte's, whatever stands above it */
			return at + ((uint32_t)__builtin_ctzll(found) >> 3);
	}
#endif
	while (at < end && head[at] != '\n')
		at++;
	return at;
}

/* Whether the `count` bytes at `at` are `name`, which is in small letters, in either case. */
static inline int qclimb_http_is(const uint8_t *at, const char *name, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if ((at[i] | (name[i] >= 'a' ? 0x20 : 0)) != (uint8_t)name[i])
			return 0;
	return 1;
}

static inline int qclimb_http_is_version(const uint8_t *at)
{
	return at[0] == 'H' && at[1] == 'T' && at[2] == 'T' && at[3] == 'P' && at[4] == '/' && at[5] == '1' &&
	       at[6] == '.' && (at[7] == '0' || at[7] == '1');
}

/* The method of a request, for the answer to it. */
static inline enum qclimb_http_asked qclimb_http_method(const uint8_t *head, uint32_t head_bytes)
{
	if (head_bytes >= 5 && head[0] == 'H' && head[1] == 'E' && head[2] == 'A' && head[3] == 'D' && head[4] == ' ')
		return QCLIMB_HTTP_HEAD;
	if (head_bytes >= 8 && head[0] == 'C' && qclimb_http_is(head, "connect", 7) && head[7] == ' ')
		return QCLIMB_HTTP_CONNECT;
	return QCLIMB_HTTP_OTHER;
}

/* What a header's first line says of the body: none, one that Content-Length counts, or one that nothing here tells. */
enum qclimb_http_body { QCLIMB_HTTP_NO_BODY, QCLIMB_HTTP_REQUEST_BODY, QCLIMB_HTTP_ANSWER_BODY, QCLIMB_HTTP_UNTOLD };

/* line_end: index of the first line's line feed. */
static inline enum qclimb_http_body qclimb_http_first_line(const uint8_t *head, uint32_t line_end,
							   enum qclimb_http_asked asked)
{
	uint32_t status, end = line_end;

	if (end > 0 && head[end - 1] == '\r')
		end--;
	if (end < 12)
		return QCLIMB_HTTP_UNTOLD;
	if (!qclimb_http_is_version(head)) {
		const int is_request = head[0] >= 'A' && head[0] <= 'Z' && head[end - 9] == ' ' &&
				       qclimb_http_is_version(head + end - 8);

		return is_request && qclimb_http_method(head, end) != QCLIMB_HTTP_CONNECT ? QCLIMB_HTTP_REQUEST_BODY
											  : QCLIMB_HTTP_UNTOLD;
	}
	status = 0;
	for (uint32_t i = 9; i < 12; i++) {
		if (head[i] < '0' || head[i] > '9')
			return QCLIMB_HTTP_UNTOLD;
		status = 10 * status + (uint32_t)(head[i] - '0');
	}
	if (status < 100 || status == 101 || (asked == QCLIMB_HTTP_CONNECT && status / 100 == 2))
		return QCLIMB_HTTP_UNTOLD; /* the connection speaks another protocol from here on */
	if (asked == QCLIMB_HTTP_HEAD || status < 200 || status == 204 || status == 304)
		return QCLIMB_HTTP_NO_BODY;
	return QCLIMB_HTTP_ANSWER_BODY;
}

/* The decimal number between `at` and `end`, blanks around it; QCLIMB_UNKNOWN_BYTES if it is none, or too large. */
static inline uint64_t qclimb_http_number(const uint8_t *head, uint32_t at, uint32_t end)
{
	uint64_t number = 0;

	while (at < end && (head[at] == ' ' || head[at] == '\t'))
		at++;
	while (end > at && (head[end - 1] == ' ' || head[end - 1] == '\t' || head[end - 1] == '\r'))
		end--;
	if (at == end || end - at > 15) /* 10^15 is above the largest size */
		return QCLIMB_UNKNOWN_BYTES;
	for (uint32_t i = 0; i < 15 && at < end; i++, at++) {
		if (head[at] < '0' || head[at] > '9')
			return QCLIMB_UNKNOWN_BYTES;
		number = 10 * number + (uint64_t)(head[at] - '0');
	}
	return number <= QCLIMB_LENGTH_MAX_BYTES ? number : QCLIMB_UNKNOWN_BYTES;
}

/*
 * The size, header and body, of the HTTP/1.x message that begins at head[0]. asked: what an answer answers. 0: not HTTP,
 * a header that does not end within head_bytes or QCLIMB_HTTP_HEAD_BYTES, a body whose size it does not tell (chunked,
 * until the connection's end), lengths that contradict each other.
 */
static inline uint64_t qclimb_http_foretell(const uint8_t *head, uint32_t head_bytes, enum qclimb_http_asked asked)
{
	const uint32_t end = head_bytes < QCLIMB_HTTP_HEAD_BYTES ? head_bytes : QCLIMB_HTTP_HEAD_BYTES;
	uint32_t at = qclimb_http_line_end(head, 0, end);
	uint64_t body_bytes = QCLIMB_UNKNOWN_BYTES;
	enum qclimb_http_body body;

	if (at == end)
		return 0;
	body = qclimb_http_first_line(head, at, asked);
	if (body == QCLIMB_HTTP_UNTOLD)
		return 0;
	for (uint32_t line = 0; line < QCLIMB_HTTP_HEAD_BYTES; line++) {
		const uint32_t from = at + 1;
		uint32_t length;

		at = qclimb_http_line_end(head, from, end);
		if (at == end)
			return 0;
		length = at - from;
		if (length == 0 || (length == 1 && head[from] == '\r'))
			break;
		if (length > 14 && head[from + 14] == ':' && qclimb_http_is(head + from, "content-length", 14)) {
			const uint64_t told_bytes = qclimb_http_number(head, from + 15, at);

			if (told_bytes == QCLIMB_UNKNOWN_BYTES ||
			    (body_bytes != QCLIMB_UNKNOWN_BYTES && body_bytes != told_bytes))
				return 0;
			body_bytes = told_bytes;
		} else if (length > 17 && head[from + 17] == ':' && body != QCLIMB_HTTP_NO_BODY &&
			   qclimb_http_is(head + from, "transfer-encoding", 17)) {
			return 0;
		}
	}
	if (body == QCLIMB_HTTP_NO_BODY)
		return at + 1;
	if (body_bytes == QCLIMB_UNKNOWN_BYTES)
		return body == QCLIMB_HTTP_REQUEST_BODY ? at + 1
							: 0; /* an answer's body then ends with the connection */
	return at + 1 + body_bytes;
}

/*
 * Walks the messages that begin in a write, one where the other ends, as far as shown_bytes of it are shown: the end of
 * the last one whose size is told, counted from the write's first byte. 0: nobody knows the first one's.
 */
static inline uint64_t qclimb_length_walk(const struct qclimb_length_rule *rule, const uint8_t *shown,
					  uint32_t shown_bytes)
{
	uint64_t end = 0;

	for (uint32_t message = 0; message < QCLIMB_HTTP_HEAD_BYTES && end < shown_bytes; message++) {
		const uint64_t size_bytes = qclimb_length_foretell(rule, shown + end, shown_bytes - (uint32_t)end);

		if (!size_bytes)
			break;
		end = qclimb_add_bytes(end, size_bytes);
	}
	return end;
}

#endif
