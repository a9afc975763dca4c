/*
 * Learning where a protocol writes its lengths, the part at the process that has the bytes: which numbers in a message's
 * first bytes would have foretold the size that its flow turned out to have. Where they stand and what they lack leaves
 * the process, no byte does. hostd finds out which of them do so again and again (hostlib/hostd/learning.py).
 */
#ifndef QCLIMB_PROPOSE_H
#define QCLIMB_PROPOSE_H

#include <stdint.h>
#include <string.h>

#include "layout.h"
#include "length.h"

#define QCLIMB_CANDIDATES_MOST 64
#define QCLIMB_BIG_ENDIAN_SHAPE 128
#define QCLIMB_TAGS_MOST 16
#define QCLIMB_TAG_BELOW 64
/* Constants up to here come first: a header's length, mostly. Larger ones fill what is left. */
#define QCLIMB_LIKELY_CONSTANT 256

/*
 * Candidates for a flow of size_bytes that began with these bytes, of which QCLIMB_LENGTH_HEAD_BYTES are looked at; the
 * wider ones first, since a number's upper bytes are mostly 0, and a part of it is as right as the whole until they are
 * not. Returns how many; `found` has room for QCLIMB_CANDIDATES_MOST.
 */
static inline uint32_t qclimb_length_candidates(const uint8_t *head, uint32_t head_bytes, uint64_t size_bytes,
						struct qclimb_candidate *found)
{
	static const uint8_t widths[] = { 8, 4, 3, 2 };
	uint8_t padded[QCLIMB_LENGTH_HEAD_BYTES + 8] = { 0 };
	struct qclimb_candidate less_likely[QCLIMB_CANDIDATES_MOST];
	uint32_t count = 0, others = 0;

	if (size_bytes > QCLIMB_LENGTH_MAX_BYTES)
		return 0;
	if (head_bytes > QCLIMB_LENGTH_HEAD_BYTES)
		head_bytes = QCLIMB_LENGTH_HEAD_BYTES;
	memcpy(padded, head, head_bytes);
	for (uint32_t i = 0; i < sizeof(widths); i++) {
		const uint32_t width = widths[i];

		const uint32_t rest = 64 - 8 * width;

		for (uint32_t offset = 0; offset + width <= head_bytes && offset + width <= size_bytes; offset++) {
			uint64_t word;

			memcpy(&word, padded + offset, sizeof(word)); /* hosts are little endian (policy.h) */
			for (int is_big = 1; is_big >= 0; is_big--) {
				const uint64_t number = is_big ? __builtin_bswap64(word) >> rest : word << rest >> rest;
				const int64_t constant = (int64_t)(size_bytes - number);
				struct qclimb_candidate candidate;

				if (number > QCLIMB_LENGTH_MAX_BYTES || number == UINT64_MAX >> rest ||
				    constant > QCLIMB_LENGTH_MAX_CONSTANT || constant < -QCLIMB_LENGTH_MAX_CONSTANT)
					continue;
				candidate.constant_bytes = (int16_t)constant;
				candidate.offset = (uint8_t)offset;
				candidate.shape = (uint8_t)(width | (is_big ? QCLIMB_BIG_ENDIAN_SHAPE : 0));
				if (constant <= QCLIMB_LIKELY_CONSTANT && constant >= -QCLIMB_LIKELY_CONSTANT) {
					if (count < QCLIMB_CANDIDATES_MOST)
						found[count++] = candidate;
				} else if (others < QCLIMB_CANDIDATES_MOST) {
					less_likely[others++] = candidate;
				}
			}
		}
	}
	for (uint32_t i = 0; i < others && count < QCLIMB_CANDIDATES_MOST; i++)
		found[count++] = less_likely[i];
	return count;
}

/*
 * What may tell a message's type: each byte of the first QCLIMB_TAGS_MOST that is a number below QCLIMB_TAG_BELOW. For
 * services alone whose lengths stand in some of their messages only. Returns how many; `found` has room for
 * QCLIMB_TAGS_MOST.
 */
static inline uint32_t qclimb_length_tags(const uint8_t *head, uint32_t head_bytes, struct qclimb_tag *found)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < QCLIMB_TAGS_MOST && i < head_bytes; i++)
		if (head[i] < QCLIMB_TAG_BELOW) {
			found[count].offset = (uint8_t)i;
			found[count++].tag = head[i];
		}
	return count;
}

#endif
