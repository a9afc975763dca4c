/*
 * CRC-32 of IEEE 802.3, the same number as zlib's crc32(). For damage on the way, not against an attacker.
 * No table is kept: a long input builds its own on the stack (4 KB, about 2 us), a short one goes bit by bit.
 */
#ifndef QCLIMB_CRC32_H
#define QCLIMB_CRC32_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t qclimb_crc32_bits(uint32_t crc, uint32_t byte)
{
	crc ^= byte;
	for (int bit = 0; bit < 8; bit++)
		crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
	return crc;
}

/* Four bytes a step ("slicing by four"): a model has 1.4 MB, and an application waits for its check. */
static inline uint32_t qclimb_crc32_long(uint32_t crc, const uint8_t *byte, size_t words)
{
	uint32_t table[4][256];

	for (uint32_t i = 0; i < 256; i++)
		table[0][i] = qclimb_crc32_bits(0, i);
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 4; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
	for (; words; words--, byte += 4) {
		crc ^= (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
		crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
	}
	return crc;
}

static inline uint32_t qclimb_crc32(const void *bytes, size_t len)
{
	const uint8_t *byte = (const uint8_t *)bytes;
	uint32_t crc = UINT32_MAX;

	if (len >= 256) {
		crc = qclimb_crc32_long(crc, byte, len / 4);
		byte += len / 4 * 4;
		len %= 4;
	}
	for (; len; len--)
		crc = qclimb_crc32_bits(crc, *byte++);
	return ~crc;
}

#endif
