/*
 * What an application told of its next flow, in one word, so that two threads' words never mix: the low 38 bits are the
 * flow's size, the high 26 its deadline in 16,384 ns, 9 minutes away at most. Pure; 0 is "nothing was told".
 */
#ifndef QCLIMB_TOLD_H
#define QCLIMB_TOLD_H

#include "base/shim.h"

#define TOLD_SIZE_BITS 38
#define TOLD_BEGINS                                                                                                    \
	((UINT64_C(1) << TOLD_SIZE_BITS) - 1) /* as a size: only that a flow begins; larger sizes are cut to one less */
#define TOLD_TICK_BITS 4 /* of tick_of() that are left out */
#define TOLD_FARTHEST_US UINT32_C(300000000)

static inline uint64_t told_size(uint64_t told, uint64_t size_bytes)
{
	return (told & ~TOLD_BEGINS) | (size_bytes < TOLD_BEGINS ? size_bytes : TOLD_BEGINS - 1);
}

static inline uint64_t told_deadline(uint64_t told, uint64_t now, uint32_t left_us)
{
	const uint64_t tick = tick_of(now + left_us * QCLIMB_NS_PER_US) >> TOLD_TICK_BITS | 1;
	const uint64_t size = told & TOLD_BEGINS ? told & TOLD_BEGINS : TOLD_BEGINS;

	return tick << TOLD_SIZE_BITS | size;
}

/* 0: none was told. */
static inline uint64_t size_told(uint64_t told)
{
	return (told & TOLD_BEGINS) == TOLD_BEGINS ? 0 : told & TOLD_BEGINS;
}

/*
 * As tick_of() would give it; 0: none was told. The 2 bits that the word lacks are those of a time within 9 minutes of
 * now.
 */
static inline uint32_t deadline_told(uint64_t told, uint64_t now)
{
	const uint32_t tick = (uint32_t)(told >> TOLD_SIZE_BITS) << TOLD_TICK_BITS;
	const uint32_t near = tick_of(now)
			      << 2; /* both modulo 2^30, in the high bits, where a difference has its sign */
	const int32_t left = (int32_t)((tick << 2) - near) >> 2;

	return told >> TOLD_SIZE_BITS ? (tick_of(now) + (uint32_t)left) | 1u : 0;
}

#endif
