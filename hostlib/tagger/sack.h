/*
 * A packet's SACK (RFC 2018) as the blocks of order.h, and blocks as a SACK in its place. For BPF only.
 * Invariant: what is written is as long as what was there, and keeps the checksum right.
 */
#ifndef QCLIMB_TAGGER_SACK_H
#define QCLIMB_TAGGER_SACK_H

#include "order.h"
#include "packet.h"

#define OPTION_END 0
#define OPTION_NOP 1
#define OPTION_SACK 5
#define TIMESTAMP_BYTES 12 /* with two NOPs (RFC 7323, appendix A) */
#define BLOCK_BYTES 8 /* of a SACK */
#define OPTIONS_STEPS 12
#define OPTIONS_ROOM 64 /* a power of two past 40, for the verifier */

/* The same number, 1 to OPTIONS_ROOM for every verifier. */
static __always_inline uint32_t room(uint32_t bytes)
{
	return (uint32_t)((opaque(bytes) - 1) & (OPTIONS_ROOM - 1)) + 1;
}

/* A header's options; the copy may be changed. */
struct options {
	uint8_t bytes[OPTIONS_ROOM], was[OPTIONS_ROOM];
	uint32_t sack; /* where its kind stands */
	uint32_t blocks;
};

/* Whether the packet has a SACK. */
static __always_inline int find_sack(struct __sk_buff *skb, const struct packet *packet, struct options *options)
{
	const uint32_t bytes = packet->options_bytes & 60;
	uint32_t at = 0;

	if (bytes < BLOCK_BYTES || bytes > OPTIONS_BYTES || bytes == TIMESTAMP_BYTES)
		return 0; /* most packets: nothing else */
	__builtin_memset(options, 0, sizeof(*options));
	if (bpf_skb_load_bytes(skb, packet->transport + (uint32_t)sizeof(struct tcphdr), options->bytes, room(bytes)))
		return 0;
	for (int i = 0; i < OPTIONS_STEPS; i++) {
		const uint8_t kind = options->bytes[at & (OPTIONS_ROOM - 1)];

		if (kind == OPTION_SACK)
			break;
		if (kind == OPTION_END)
			return 0;
		at += kind == OPTION_NOP ? 1 : options->bytes[(at + 1) & (OPTIONS_ROOM - 1)];
	}
	at &= OPTIONS_ROOM - 1;
	options->sack = at;
	options->blocks = (uint32_t)options->bytes[(at + 1) & (OPTIONS_ROOM - 1)] / BLOCK_BYTES;
	__builtin_memcpy(options->was, options->bytes, sizeof(options->was));
	return options->bytes[at] == OPTION_SACK && options->blocks && options->blocks <= ORDER_BLOCKS &&
	       at + 2 + options->blocks * BLOCK_BYTES <= bytes;
}

static __always_inline uint32_t number_at(const struct options *options, uint32_t at)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < sizeof(number); i++)
		number = number << 8 | options->bytes[(at + i) & (OPTIONS_ROOM - 1)];
	return number;
}

static __always_inline void put_number(struct options *options, uint32_t at, uint32_t number)
{
	for (uint32_t i = 0; i < sizeof(number); i++)
		options->bytes[(at + i) & (OPTIONS_ROOM - 1)] = (uint8_t)(number >> (24 - 8 * i));
}

/*
 * What the SACK names, as positions. The socket's lock is not held here: the constant `first` and any nearby position give
 * the same one whatever another processor does with the socket.
 */
static __always_inline void read_blocks(const struct options *options, const struct order *order, uint64_t near,
					struct order_block *blocks)
{
	for (uint32_t i = 0; i < ORDER_BLOCKS; i++) {
		const uint32_t at = options->sack + 2 + i * BLOCK_BYTES;

		blocks[i] = (struct order_block){ 0, 0 };
		if (i < options->blocks) {
			blocks[i].start = order_position(order, near, number_at(options, at));
			blocks[i].end = order_position(order, near, number_at(options, at + 4));
		}
	}
}

/* Has the SACK name these; what is left of its room becomes NOPs. */
static __always_inline void put_blocks(struct options *options, const struct order *order,
				       const struct order_block *blocks, uint64_t count)
{
	const uint32_t room = 2 + options->blocks * BLOCK_BYTES, bytes = count ? 2 + (uint32_t)count * BLOCK_BYTES : 0;

	for (uint32_t i = 0; i < ORDER_BLOCKS; i++) {
		const uint32_t at = options->sack + 2 + i * BLOCK_BYTES;

		if (i < count) {
			put_number(options, at, order_sequence(order, blocks[i].start));
			put_number(options, at + 4, order_sequence(order, blocks[i].end));
		}
	}
	options->bytes[(options->sack + 1) & (OPTIONS_ROOM - 1)] = (uint8_t)bytes;
	for (uint32_t i = 0; i < 2 + ORDER_BLOCKS * BLOCK_BYTES; i++)
		if (bytes <= i && i < room)
			options->bytes[(options->sack + i) & (OPTIONS_ROOM - 1)] = OPTION_NOP;
}

static __always_inline void write_options(struct __sk_buff *skb, const struct packet *packet, struct options *options)
{
	const uint32_t bytes = packet->options_bytes & 60;
	int64_t difference;

	if (bytes < 4 || bytes > OPTIONS_BYTES)
		return;
	difference = bpf_csum_diff((__be32 *)(void *)options->was, bytes, (__be32 *)(void *)options->bytes, bytes, 0);
	if (difference < 0 || bpf_skb_store_bytes(skb, packet->transport + (uint32_t)sizeof(struct tcphdr),
						  options->bytes, room(bytes), 0))
		return;
	(void)bpf_l4_csum_replace(skb, packet->transport + offsetof(struct tcphdr, check), 0, (uint64_t)difference, 0);
}

#endif
