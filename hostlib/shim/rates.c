#include "rates.h"

#include <qclimb/coflow.h>

#define WINDOW_FIRST 10u /* as a sender's initial window, RFC 6928 */
#define WINDOW_LEAST 2u
#define WINDOW_MOST 64u
#define SMOOTH 8
#define ASLEEP_NS (100 * RATES_SAMPLE_NS)
#define PEAK_DECAY 256 /* a learned capacity sinks by a 256th a sample below alpha C: a link may have become slower */

/* Applications read in bursts: a single sample says little. */
static uint64_t smooth(_Atomic uint64_t *rate, uint64_t found)
{
	const uint64_t old = atomic_load(rate);
	const uint64_t now = old - old / SMOOTH + found / SMOOTH;

	atomic_store(rate, now);
	return now;
}

/* Nothing is known: nobody is let past the head at first. */
static void begin(struct rates *rates, uint64_t capacity, uint64_t now)
{
	atomic_store(&rates->full_ns, now);
	atomic_store(&rates->window, WINDOW_FIRST);
	atomic_store(&rates->smooth_head, capacity);
	atomic_store(&rates->smooth_large, 0);
	atomic_store(&rates->smooth_before, capacity);
	atomic_store(&rates->smooth_sum, capacity);
	atomic_store(&rates->before, capacity);
}

static void learn(struct rates *rates, uint64_t sum)
{
	const uint64_t peak = atomic_load(&rates->peak);

	if (sum > peak)
		atomic_store(&rates->peak, sum);
	else if (sum < qclimb_congested_rate(peak))
		atomic_store(&rates->peak, peak - peak / PEAK_DECAY);
}

/*
 * By Algorithm 3 as it stands, those behind get what the head leaves of alpha C; but while they share a full link, that
 * is also what they took from it, and they would give it up only slowly. So, where the link is full (half way from
 * alpha C to C), nothing is left, and what is left later comes back slowly: with 72 flows behind, two segments of each
 * are more than half of what the link carries in 30 ms. The head's window goes by what the head receives: a large flow
 * that fills the link beside it would else take its window away.
 */
bool rates_sample(struct rates *rates, uint64_t told, uint64_t now)
{
	uint64_t then = atomic_load_explicit(&rates->sampled_ns, memory_order_relaxed);
	uint64_t head, large, before, sum, capacity;
	bool is_full;

	if (now <= then || now - then <= RATES_SAMPLE_NS ||
	    !atomic_compare_exchange_strong(&rates->sampled_ns, &then, now))
		return false;
	head = atomic_load(&rates->bytes[LINE_HEADS]);
	large = atomic_load(&rates->bytes[LINE_LARGE]);
	before = head + large + atomic_load(&rates->bytes[LINE_OTHERS]);
	sum = before + atomic_load(&rates->bytes[LINE_BEHIND]);
	head -= atomic_exchange(&rates->sampled_head, head);
	large -= atomic_exchange(&rates->sampled_large, large);
	before -= atomic_exchange(&rates->sampled_before, before);
	sum -= atomic_exchange(&rates->sampled_sum, sum);
	capacity = rates_capacity(rates, told);
	if (now - then > ASLEEP_NS) {
		begin(rates, capacity, now);
		return true;
	}
	head = smooth(&rates->smooth_head, head * QCLIMB_NS_PER_MS * 1000 / (now - then));
	smooth(&rates->smooth_large, large * QCLIMB_NS_PER_MS * 1000 / (now - then));
	before = smooth(&rates->smooth_before, before * QCLIMB_NS_PER_MS * 1000 / (now - then));
	sum = smooth(&rates->smooth_sum, sum * QCLIMB_NS_PER_MS * 1000 / (now - then));
	learn(rates, sum);
	is_full = sum >= (capacity + qclimb_congested_rate(capacity)) / 2;
	if (is_full)
		atomic_store(&rates->full_ns, now);
	atomic_store(&rates->before, qclimb_rate_before_next(atomic_load(&rates->before), before, capacity, is_full));
	atomic_store(&rates->window,
		     qclimb_window_next(atomic_load(&rates->window), head, capacity, WINDOW_LEAST, WINDOW_MOST));
	return true;
}

/* Counted anew in each period rather than up and down: who is killed takes its count along. */
void rates_count_large(struct rates *rates, _Atomic uint32_t *counted, uint64_t now)
{
	const uint32_t period = (uint32_t)(now / RATES_COUNT_NS) + 1; /* a flow's first: 0 */
	uint32_t then = atomic_load_explicit(&rates->counted, memory_order_relaxed);

	if (then != period && atomic_compare_exchange_strong(&rates->counted, &then, period)) {
		const uint32_t found = atomic_exchange(&rates->larges_now, 0);

		atomic_store(&rates->larges, then + 1 == period ? found : 0);
	}
	if (atomic_exchange_explicit(counted, period, memory_order_relaxed) != period)
		atomic_fetch_add(&rates->larges_now, 1);
}

void rates_bound_large(struct rates *rates, uint64_t told, uint32_t smalls, uint64_t now)
{
	const uint64_t full_ns = atomic_load(&rates->full_ns);
	const bool is_full = full_ns >= now || now - full_ns <= RATES_FULL_NS;

	atomic_store(&rates->large_window,
		     qclimb_large_window_next(atomic_load(&rates->large_window), atomic_load(&rates->smooth_large),
					      rates_capacity(rates, told), atomic_load(&rates->larges),
					      is_full ? smalls : 0, WINDOW_LEAST, WINDOW_MOST));
}
