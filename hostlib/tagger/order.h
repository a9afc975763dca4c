/*
 * Lost or only overtaken (QCLIMB, NSDI'24, 3.2.1), told by the sender: which SACKs of a flow that climbs are proof of a
 * loss. Plain state of one connection and pure functions; knows nothing of packets, maps or clocks. The paper has the
 * receiver tell, by the priorities at which packets come; the sender knows of each byte at which it went.
 *
 * Packets of one priority stay in order on one path, and overtake those of a priority served later. So where the first
 * missing byte went at priority P, a SACK of what was sent after it at P, or at one served later, says that it is lost;
 * a SACK of what was sent at one served earlier says nothing: the byte may still wait in a queue. TCP's RACK (RFC 8985)
 * would take for lost all that was sent before what a SACK names: so SACKs are cut where proof ends.
 * `proves` says of each P which priorities are served no earlier on its path; what another path carries proves nothing.
 *
 * What is sent again must not overtake either: RACK would take all that was sent before it, and still waits, for lost as
 * soon as it is acknowledged. So it goes at the priority served latest of all that is on its way, the floor; and until
 * what was on its way then is acknowledged, nothing goes earlier. Once the first of it has come, all that had been sent
 * before it has come or is lost.
 *
 * What was lost at the end of a chunk looks like what waits. No clock tells: new data goes at the floor, too, when nothing
 * moved for a while, and TCP itself probes (RFC 8985, 7.3); what comes of that behind the missing byte proves the loss.
 */
#ifndef QCLIMB_TAGGER_ORDER_H
#define QCLIMB_TAGGER_ORDER_H

#include <stdint.h>

#include <qclimb/priority.h>

#define ORDER_CHANGES 8 /* that are remembered: a power of two. What went before them is taken for proven */
#define ORDER_PRIORITIES 16 /* a policy with more: SACKs of what goes past them are shown */
#define ORDER_BLOCKS 4 /* of a SACK: RFC 2018, section 3 */
#define ORDER_HIDDEN 4

/* From `start` up to `end`; an empty one names nothing. */
struct order_block {
	uint64_t start, end;
};

/* Positions are those of tagger.h. All zero at first: everything goes at priority 0. */
struct order {
	uint64_t from[ORDER_CHANGES]; /* the first byte at each priority; the newest change is at (changes - 1) */
	uint64_t priority[ORDER_CHANGES];
	uint64_t changes;
	uint64_t floor; /* nothing is served earlier than this ... */
	uint64_t floor_until; /* ... before all up to here is acknowledged */
	uint64_t again; /* the first that was sent again */
	uint64_t before_again; /* and the end of all that was sent before it: then another one is the first */
	uint64_t seen; /* the highest end that a SACK named ... */
	uint64_t seen_before; /* ... when it was sent again */
	uint32_t first; /* the sequence number of position 0 */
	uint32_t reserved;
	uint64_t gap, since_ns; /* the first missing byte while SACKs past it are hidden, and since when */
	struct order_block hidden[ORDER_HIDDEN]; /* what SACKs named that was hidden; empty ones: none */
};

/* The position of a sequence number that is near to the one at position `near`. */
static inline uint64_t order_position(const struct order *order, uint64_t near, uint32_t sequence)
{
	return near + (uint64_t)(int64_t)(int32_t)(sequence - order->first - (uint32_t)near);
}

static inline uint32_t order_sequence(const struct order *order, uint64_t position)
{
	return order->first + (uint32_t)position;
}

/* Of a connection whose position 0 is at sequence number `first`: begins anew where the socket carried another one. */
static inline void order_begin(struct order *order, uint32_t first)
{
	if (order->first != first)
		*order = (struct order){ .first = first };
}

/* The priority at which a byte went that is on its way; ORDER_PRIORITIES: nobody remembers. */
static inline uint64_t order_priority_at(const struct order *order, uint64_t position)
{
	uint64_t found = ORDER_PRIORITIES;

	for (uint64_t i = 0; i < ORDER_CHANGES; i++) { /* the oldest first */
		const uint64_t slot = (order->changes + i) & (ORDER_CHANGES - 1);
		const uint64_t is_at = 0 - qclimb_at_most(order->from[slot], position);

		found = (found & ~is_at) | (order->priority[slot] & is_at);
	}
	return found;
}

/* The priority served latest of what is on its way, of those that the byte at `position` can't be overtaken by. */
static inline uint64_t order_latest(const struct order *order, const uint16_t *proves, uint64_t unacked,
				    uint64_t position)
{
	const uint64_t own = order_priority_at(order, position);
	const uint64_t alike = proves[own & (ORDER_PRIORITIES - 1)] | (0 - qclimb_at_most(ORDER_PRIORITIES, own));
	uint64_t latest = 0;

	for (uint64_t i = 0; i < ORDER_CHANGES; i++) {
		const uint64_t slot = (order->changes + i) & (ORDER_CHANGES - 1);
		const uint64_t next = order->from[(slot + 1) & (ORDER_CHANGES - 1)], priority = order->priority[slot];
		const uint64_t is_over = i + 1 < ORDER_CHANGES ? qclimb_at_most(next, unacked) : 0;
		const uint64_t is_alike = qclimb_at_most(ORDER_PRIORITIES, priority) | (alike >> (priority & 15) & 1);

		latest = qclimb_larger(latest, priority & (0 - ((is_over ^ 1) & is_alike)));
	}
	return latest;
}

/*
 * A packet is sent for the first time that would go at `priority`, while `unacked` is the first byte on its way: the
 * priority at which it goes. `is_stalled`: SACKs past that byte have been hidden for a while.
 */
static inline uint64_t order_send(struct order *order, const uint16_t *proves, uint64_t unacked, uint64_t position,
				  uint64_t priority, int is_stalled)
{
	if (is_stalled) {
		order->floor = order_latest(order, proves, unacked, unacked);
		order->floor_until = position + 1;
	}
	if (unacked < order->floor_until)
		priority = qclimb_larger(priority, order->floor);
	if (order->priority[(order->changes - 1) & (ORDER_CHANGES - 1)] != priority) {
		const uint64_t slot = order->changes & (ORDER_CHANGES - 1);

		order->from[slot] = position;
		order->priority[slot] = priority;
		order->changes++;
	}
	return priority;
}

/* A packet at `position` is sent again, while [unacked, next) is on its way: the priority at which it goes. */
static inline uint64_t order_send_again(struct order *order, const uint16_t *proves, uint64_t unacked,
					uint64_t position, uint64_t next)
{
	if (unacked >= order->before_again) {
		order->again = position;
		order->before_again = next;
		order->seen_before = order->seen;
	}
	order->floor = order_latest(order, proves, unacked, position);
	order->floor_until = next;
	return order->floor;
}

/*
 * Whether the first that was sent again has come: it is acknowledged, or named by a SACK where none had named it before,
 * or named as come twice (RFC 2883).
 */
static inline uint64_t order_came_again(const struct order *order, uint64_t acked, const struct order_block *blocks)
{
	const uint64_t is_named =
		qclimb_at_most(blocks[0].start, order->again) & qclimb_at_most(order->again + 1, blocks[0].end);
	const uint64_t is_within =
		qclimb_at_most(blocks[1].start, blocks[0].start) & qclimb_at_most(blocks[0].end, blocks[1].end);
	const uint64_t is_new = qclimb_at_most(order->seen_before, order->again);

	return qclimb_at_most(acked + 1, order->before_again) &
	       (qclimb_at_most(order->again + 1, acked) | (is_named & (is_within | is_new)));
}

/* How far SACKs are proof when everything before `acked` has come: to be cut there. */
static inline uint64_t order_proven(const struct order *order, const uint16_t *proves, uint64_t acked,
				    const struct order_block *blocks)
{
	const uint64_t missing = order_priority_at(order, acked);
	const uint64_t proof = proves[missing & (ORDER_PRIORITIES - 1)];
	uint64_t proven = acked;

	if (missing >= ORDER_PRIORITIES)
		return UINT64_MAX;
	for (uint64_t i = 0; i < ORDER_CHANGES; i++) {
		const uint64_t slot = (order->changes + i) & (ORDER_CHANGES - 1);
		const uint64_t from = order->from[slot], priority = order->priority[slot];
		const uint64_t end = i + 1 < ORDER_CHANGES ? order->from[(slot + 1) & (ORDER_CHANGES - 1)] : UINT64_MAX;
		const uint64_t is_proof = qclimb_at_most(ORDER_PRIORITIES, priority) | (proof >> (priority & 15) & 1);
		uint64_t counts = qclimb_at_most(from, acked); /* or a block lies in it */

		for (uint64_t b = 0; b < ORDER_BLOCKS; b++)
			counts |= qclimb_at_most(blocks[b].start + 1, end) & qclimb_at_most(from + 1, blocks[b].end) &
				  qclimb_at_most(acked + 1, blocks[b].end);
		proven = qclimb_larger(proven, end & (0 - (is_proof & counts & qclimb_at_most(acked + 1, end))));
	}
	return qclimb_larger(proven, order->before_again & (0 - order_came_again(order, acked, blocks)));
}

/* Remembers what is hidden: a receiver names the newest three or four only, and perhaps this one never again. */
static inline void order_remember(struct order *order, uint64_t acked, struct order_block block)
{
	for (uint64_t i = 0; i < ORDER_HIDDEN; i++) {
		struct order_block *known = &order->hidden[i];
		const uint64_t is_over = qclimb_at_most(known->end, acked) | qclimb_at_most(known->end, known->start);

		if (!is_over && (block.start > known->end || block.end < known->start))
			continue;
		if (is_over || block.start < known->start)
			known->start = block.start;
		if (is_over || block.end > known->end)
			known->end = block.end;
		return;
	}
}

/*
 * Cuts a SACK of `count` blocks at `proven`, and puts what was hidden and is proven now in place of the oldest ones, which
 * were told before. How many are left; `has_cut`, `has_told`: what was done. No block comes to lie within the one after it
 * that did not before: that would be a DSACK (RFC 2883).
 */
static inline uint64_t order_show(struct order *order, uint64_t acked, uint64_t proven, struct order_block *blocks,
				  uint64_t count, int *has_cut, int *has_told)
{
	uint64_t kept = 0, last = count;

	*has_cut = *has_told = 0;
	for (uint64_t i = 0; i < ORDER_BLOCKS && i < count; i++) {
		struct order_block block = blocks[i];

		order->seen = block.end > order->seen ? block.end : order->seen;
		if (block.end > proven) {
			order_remember(order, acked,
				       (struct order_block){ block.start > proven ? block.start : proven, block.end });
			block.end = proven;
			*has_cut = 1;
		}
		if (block.start < block.end)
			blocks[kept++ & (ORDER_BLOCKS - 1)] = block;
	}
	for (uint64_t i = 0; i < ORDER_HIDDEN; i++) {
		struct order_block block = order->hidden[i];
		int is_told = 0;

		block.end = block.end > proven ? proven : block.end;
		if (block.end <= block.start || block.end <= acked)
			continue;
		for (uint64_t b = 0; b < ORDER_BLOCKS; b++)
			is_told |= b < kept && blocks[b].start <= block.start && block.end <= blocks[b].end;
		if (!is_told) {
			if (kept < count)
				blocks[kept++ & (ORDER_BLOCKS - 1)] = block;
			else if (last > 1 && (blocks[0].start < block.start || block.end < blocks[0].end))
				blocks[--last & (ORDER_BLOCKS - 1)] = block;
			else
				continue;
			*has_told = 1;
		}
		order->hidden[i].start = block.end;
	}
	return kept;
}

/* SACKs past `acked` are hidden at the clock's `now_ns`. */
static inline void order_hide(struct order *order, uint64_t acked, uint64_t now_ns)
{
	if (acked != order->gap || !order->since_ns) {
		order->gap = acked;
		order->since_ns = now_ns;
	}
}

/* SACKs past the first byte on its way have been hidden for longer than `hold_ns`. */
static inline int order_is_stalled(const struct order *order, uint64_t unacked, uint64_t now_ns, uint64_t hold_ns)
{
	return order->since_ns && order->gap == unacked && now_ns - order->since_ns > hold_ns;
}

#endif
