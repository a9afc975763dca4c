#include "socket/locals.h"

#include <stdatomic.h>
#include <string.h>

#define PLACES 4096u
#define PROBES 16u

enum { PLACE_FREE, PLACE_FILLING, PLACE_READY };

static struct place {
	_Atomic uint32_t state;
	uint8_t address[16];
} table[PLACES]; /* [0] stays empty */

static uint32_t hash_of(const uint8_t *address)
{
	uint64_t half[2];

	memcpy(half, address, sizeof(half));
	return (uint32_t)(((half[0] ^ half[1]) * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

uint16_t locals_place(const uint8_t *address)
{
	const uint32_t hash = hash_of(address);

	for (uint32_t probe = 0; probe < PROBES; probe++) {
		const uint32_t at = 1 + (hash + probe) % (PLACES - 1);
		uint32_t state = atomic_load_explicit(&table[at].state, memory_order_acquire);

		if (state == PLACE_FREE && atomic_compare_exchange_strong(&table[at].state, &state, PLACE_FILLING)) {
			memcpy(table[at].address, address, sizeof(table[at].address));
			atomic_store_explicit(&table[at].state, PLACE_READY, memory_order_release);
			return (uint16_t)at;
		}
		/* One that another thread fills just now may be the same: then it is kept twice. */
		if (state == PLACE_READY && !memcmp(table[at].address, address, sizeof(table[at].address)))
			return (uint16_t)at;
	}
	return 0;
}

const uint8_t *locals_at(uint16_t place)
{
	return table[place % PLACES].address;
}
