#include "life/history.h"

#include <string.h>

#include "base/process.h"

#define SETS 512u
#define WAYS 4u
#define GAP_MAX_US UINT64_C(1000000000)

struct past {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t end_ns;
	_Atomic uint64_t sizes[3]; /* newest first, packed; two to a word, the newer one in its low half */
};

_Static_assert(QCLIMB_LAST_SIZES == 5, "three words, half of the last one unused");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the newer of two sizes comes first in memory");

static struct past table[SETS][WAYS];

/* On the path of every flow: two multiplications, whose high halves are folded into what the table is indexed by. */
static inline uint64_t key_of(const struct connection *connection)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	const uint32_t service_port = connection->role ? connection->local_port : connection->peer_port;
	uint64_t half[2], key;

	memcpy(half, connection->peer_addr, sizeof(half));
	key = (half[0] ^ service_port << 1 ^ connection->role) * odd;
	key = ((key ^ key >> 32) + half[1]) * odd;
	return (key ^ key >> 29) | 1;
}

static inline struct past *find(uint64_t key)
{
	for (uint32_t way = 0; way < WAYS; way++)
		if (relaxed_get(table[key >> 8 & (SETS - 1)][way].key) == key)
			return &table[key >> 8 & (SETS - 1)][way];
	return NULL;
}

/* The entry of a service that has none yet, or lost it. */
static __attribute__((noinline)) struct past *make_room(uint64_t key)
{
	struct past *past = &table[key >> 8 & (SETS - 1)][0];

	for (uint32_t way = 1; way < WAYS; way++) {
		struct past *other = &table[key >> 8 & (SETS - 1)][way];

		if (relaxed_get(other->end_ns) < relaxed_get(past->end_ns))
			past = other;
	}
	for (int i = 0; i < 3; i++)
		relaxed_set(past->sizes[i], 0);
	relaxed_set(past->key, key);
	return past;
}

static inline struct past *take(uint64_t key)
{
	struct past *past = find(key);

	return likely(past) ? past : make_room(key);
}

/* The next flow's facts. */
static inline void set_facts(struct flow_facts *facts, uint64_t first, uint64_t second, uint64_t third, uint64_t gap_us)
{
	const uint32_t last = (uint32_t)third;

	memcpy(&facts->last_sizes[0], &first, sizeof(first));
	memcpy(&facts->last_sizes[2], &second, sizeof(second));
	facts->last_sizes[4] = last;
	facts->gap_us = (uint32_t)(gap_us < GAP_MAX_US ? gap_us : GAP_MAX_US);
}

static inline uint64_t gap_us_of(uint64_t end_ns, uint64_t start_ns)
{
	return start_ns > end_ns ? (start_ns - end_ns) / QCLIMB_NS_PER_US : 0;
}

void history_recall(struct connection *connection)
{
	const struct past *past = find(key_of(connection));

	if (!past)
		set_facts(&connection->facts, 0, 0, 0, GAP_MAX_US);
	else
		set_facts(&connection->facts, relaxed_get(past->sizes[0]), relaxed_get(past->sizes[1]),
			  relaxed_get(past->sizes[2]), gap_us_of(relaxed_get(past->end_ns), connection->start_ns));
}

void history_turn(struct connection *connection, uint64_t size_bytes, uint64_t now)
{
	struct past *past = take(key_of(connection));
	const uint64_t end_ns = relaxed_get(connection->last_write_ns);
	const uint64_t older = relaxed_get(past->sizes[0]);
	const uint64_t oldest = relaxed_get(past->sizes[1]);
	const uint64_t first = older << 32 | size_pack(size_bytes);
	const uint64_t second = oldest << 32 | older >> 32;

	relaxed_set(past->sizes[0], first);
	relaxed_set(past->sizes[1], second);
	relaxed_set(past->sizes[2], oldest >> 32);
	relaxed_set(past->end_ns, end_ns);
	set_facts(&connection->facts, first, second, oldest >> 32, gap_us_of(end_ns, now));
}
