/*
 * Lost or only overtaken (QCLIMB, NSDI'24, 3.2.1): what a receiver can tell of a gap in a flow from the priorities at
 * which bytes came. Plain state of one flow and pure functions; knows nothing of packets, maps or clocks.
 *
 * Packets of one priority stay in order on one path; those of a priority served earlier overtake those served later. A
 * climbing flow sends each chunk at one priority, so the byte before a gap belongs to the priority P whose highest end
 * is the nearest at or past the gap. Where a byte past the gap came at P, or at one served later, the gap is a loss:
 * what is missing was sent before it, and was served no later. Where all that passed was served earlier, what is
 * missing may still wait in a queue.
 *
 * Where priorities are pinned to several paths, all that holds of P's own path alone: what another one carries may be
 * ahead or behind by whatever its queues hold. `proves` says for each P which priorities on its path are served no
 * earlier.
 *
 * It may also have been lost there, at the end of its chunk, and nothing of that priority will ever tell. So a verdict
 * of "overtaken" holds only while the gap moves, and for as long after its last move as priorities are seen to be
 * silent while they are overtaken: the mean of each gap's longest silence, and one mean deviation (estimated as RFC
 * 6298, 2.3 does it for TCP's timeout, which takes four: a SACK shown too early costs some packets sent twice, one
 * shown too late leaves the flow standing). What is known is kept for each host and priority: a flow is over before it
 * has learned, and what keeps a priority silent is mostly the queue at the host's own port, which all its flows share.
 */
#ifndef QCLIMB_TAGGER_ARRIVALS_H
#define QCLIMB_TAGGER_ARRIVALS_H

#include <stdint.h>

#include <qclimb/priority.h>

#define ARRIVALS_PRIORITIES 16 /* a policy with more has no filter beyond: SACKs are shown */
#define HOLD_FIRST_NS UINT64_C(5000000) /* before anything was measured */
#define HOLD_LEAST_NS UINT64_C(500000)
#define HOLD_MOST_NS UINT64_C(100000000) /* half of TCP's least timeout, 200 ms on Linux: it must not come first */

struct arrivals {
	uint64_t top; /* highest end of all; positions are sequence numbers widened to 64 bits */
	uint64_t end[ARRIVALS_PRIORITIES]; /* highest end of each priority, 0: none came */
	uint64_t gap; /* the first missing byte while a SACK past it is hidden; 0: none */
	uint64_t since_ns; /* when the gap was first seen, or last moved */
	uint64_t longest_ns; /* without a move, since the gap was first seen */
	uint32_t waiting; /* the priority before the gap */
	uint32_t reserved;
};

/* How long a priority is silent while it is overtaken: one sample a gap. */
struct silence {
	uint64_t mean_ns, deviation_ns;
	uint64_t samples;
};

enum verdict {
	VERDICT_LOST, /* show the SACK */
	VERDICT_HELD, /* show it: nothing came for longer than the hold */
	VERDICT_OVERTAKEN, /* hide it */
};

static inline uint64_t arrivals_position(const struct arrivals *flow, uint32_t sequence)
{
	return flow->top + (uint64_t)(int64_t)(int32_t)(sequence - (uint32_t)flow->top);
}

static inline void arrivals_start(struct arrivals *flow, uint32_t sequence)
{
	*flow = (struct arrivals){ .top = (UINT64_C(1) << 32) + sequence };
}

static inline void silence_note(struct silence *silence, uint64_t ns)
{
	const uint64_t mean = silence->mean_ns;
	uint64_t off;

	if (ns > HOLD_MOST_NS)
		ns = HOLD_MOST_NS;
	off = ns > mean ? ns - mean : mean - ns;

	if (!silence->samples) {
		silence->mean_ns = ns;
		silence->deviation_ns = ns / 2;
	} else {
		silence->deviation_ns = silence->deviation_ns - silence->deviation_ns / 4 + off / 4;
		silence->mean_ns = mean - mean / 8 + ns / 8;
	}
	silence->samples++;
}

static inline uint64_t silence_hold_ns(const struct silence *silence)
{
	const uint64_t hold = silence->mean_ns + silence->deviation_ns;

	if (!silence->samples)
		return HOLD_FIRST_NS;
	return hold < HOLD_LEAST_NS ? HOLD_LEAST_NS : hold > HOLD_MOST_NS ? HOLD_MOST_NS : hold;
}

/*
 * Bytes [sequence, sequence + len) came at a priority; one >= ARRIVALS_PRIORITIES: they were sent again, on any path.
 * Bytes that fill a gap so, or at priority 0, tell nothing of how long the others wait.
 */
static inline void arrivals_note(struct arrivals *flow, uint32_t sequence, uint32_t len, uint32_t priority,
				 uint64_t now_ns)
{
	const uint64_t first = arrivals_position(flow, sequence);
	const uint64_t end = first + len;
	uint64_t known_end, place = priority;

	if (flow->gap && first <= flow->gap && flow->gap < end) {
		if (priority && priority < ARRIVALS_PRIORITIES && now_ns - flow->since_ns > flow->longest_ns)
			flow->longest_ns = now_ns - flow->since_ns;
		flow->gap = end;
		flow->since_ns = now_ns;
	}
#ifdef __bpf__
	__asm__(""
		: "+r"(place)); /* else clang leaves the mask out where a branch makes it needless: not to a verifier */
#endif
	known_end = end & (0 - qclimb_at_most(place, ARRIVALS_PRIORITIES - 1));
	place &= ARRIVALS_PRIORITIES - 1;
	if (known_end > flow->end[place])
		flow->end[place] = known_end;
	if (end > flow->top)
		flow->top = end;
}

/*
 * What an ACK of everything before `ack` with a SACK past it says. `silences`: of each priority, which learn from the
 * gap before. `proves`: of each priority, as above, a bit for each that proves a loss of its bytes by passing them.
 */
static inline enum verdict arrivals_judge(struct arrivals *flow, struct silence *silences, const uint16_t *proves,
					  uint32_t ack, uint64_t now_ns)
{
	const uint64_t gap = arrivals_position(flow, ack);
	uint64_t nearest = UINT64_MAX, before = 0, passed_by = 0;

	/* Without branches, as qclimb_priority_of(): the kernel's verifier would follow each. */
	for (uint64_t p = 0; p < ARRIVALS_PRIORITIES; p++) {
		const uint64_t end = flow->end[p];
		const uint64_t nearer = 0 - (qclimb_at_most(gap, end) & qclimb_at_most(end + 1, nearest));

		passed_by |= qclimb_at_most(gap + 1, end) << p;
		nearest = (nearest & ~nearer) | (end & nearer);
		before = (before & ~nearer) | (p & nearer);
	}
	if (!passed_by || passed_by & proves[before & (ARRIVALS_PRIORITIES - 1)])
		return VERDICT_LOST;
	if (gap > flow->gap) {
		if (flow->longest_ns)
			silence_note(&silences[flow->waiting & (ARRIVALS_PRIORITIES - 1)], flow->longest_ns);
		flow->gap = gap;
		flow->since_ns = now_ns;
		flow->longest_ns = 0;
	}
	flow->waiting = (uint32_t)before;
	return now_ns - flow->since_ns > silence_hold_ns(&silences[before & (ARRIVALS_PRIORITIES - 1)])
		       ? VERDICT_HELD
		       : VERDICT_OVERTAKEN;
}

#endif
