/*
 * CRC-32 of IEEE 802.3, the same number as zlib's crc32(). For damage on the way, not against an attacker.
 * No table is kept: a long input builds its own on the stack (1 KB: an application's may be small), a short one goes bit
 * by bit.
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

static inline uint32_t qclimb_crc32_word(const uint8_t *byte)
{
	return (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

/* What a word adds to the checksum: table[k] is of a half byte that k others follow. */
static inline uint32_t qclimb_crc32_share(const uint32_t (*table)[16], uint32_t word)
{
	return table[7][word & 15] ^ table[6][word >> 4 & 15] ^ table[5][word >> 8 & 15] ^ table[4][word >> 12 & 15] ^
	       table[3][word >> 16 & 15] ^ table[2][word >> 20 & 15] ^ table[1][word >> 24 & 15] ^ table[0][word >> 28];
}

/*
 * Eight bytes a step, by half bytes ("slicing"): a model has 1.4 MB, and an application waits for its check. As fast as
 * four whole bytes a step, whose table is 4 KB, and twice as fast on a policy.
 */
static inline uint32_t qclimb_crc32_long(uint32_t crc, const uint8_t *byte, size_t pairs)
{
	uint32_t table[16][16];

	for (uint32_t i = 0; i < 16; i++) {
		table[0][i] = i;
		for (int bit = 0; bit < 4; bit++)
			table[0][i] = table[0][i] >> 1 ^ (0xedb88320u & (0u - (table[0][i] & 1)));
	}
	for (uint32_t i = 0; i < 16; i++)
		for (int k = 1; k < 16; k++)
			table[k][i] = table[k - 1][i] >> 4 ^ table[0][table[k - 1][i] & 15];
	for (; pairs; pairs--, byte += 8)
		crc = qclimb_crc32_share((const uint32_t(*)[16])table + 8, crc ^ qclimb_crc32_word(byte)) ^
		      qclimb_crc32_share((const uint32_t(*)[16])table, qclimb_crc32_word(byte + 4));
	return crc;
}

static inline uint32_t qclimb_crc32(const void *bytes, size_t len)
{
	const uint8_t *byte = (const uint8_t *)bytes;
	uint32_t crc = UINT32_MAX;

	if (len >= 256) {
		crc = qclimb_crc32_long(crc, byte, len / 8);
		byte += len / 8 * 8;
		len %= 8;
	}
	for (; len; len--)
		crc = qclimb_crc32_bits(crc, *byte++);
	return ~crc;
}

#endif
