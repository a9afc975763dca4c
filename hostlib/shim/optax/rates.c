#include "optax/rates.h"

#define WINDOW_LEAST 2u
#define WINDOW_MOST 64u
#define SMOOTH 8
#define ASLEEP_NS (100 * RATES_SAMPLE_NS)
#define STEADY_SAMPLES 8u
#define STEADY_PARTS 32
#define PEAK_DECAY 256 /* a learned capacity sinks by a 256th a sample below alpha C: a link may have become slower */

/* Applications read in bursts: a single sample says little. */
static uint64_t smooth(_Atomic uint64_t *rate, uint64_t found)
{
	const uint64_t old = atomic_load(rate);
	const uint64_t now = old - old / SMOOTH + found / SMOOTH;

	atomic_store(rate, now);
	return now;
}

static void count_sample(_Atomic uint32_t *samples, bool is_one)
{
	const uint32_t found = atomic_load(samples);

	atomic_store(samples, is_one ? found + (found < UINT32_MAX) : 0);
}

/* Nothing is known: where a line is long nobody is let past the head at first, and its window does not grow. */
static void begin(struct rates *rates, uint64_t capacity, uint64_t now)
{
	atomic_store(&rates->full_ns, 0);
	atomic_store(&rates->room_ns, now);
	atomic_store(&rates->slack_ns, 0);
	atomic_store(&rates->slack_flows, 0);
	atomic_store(&rates->full_samples, 0);
	atomic_store(&rates->slack_samples, 0);
	atomic_store(&rates->window, RATES_FIRST_WINDOW);
	atomic_store(&rates->large_window, 0);
	atomic_store(&rates->smooth_head, capacity);
	atomic_store(&rates->smooth_large, 0);
	atomic_store(&rates->smooth_before, 0);
	atomic_store(&rates->smooth_sum, capacity - capacity / 4); /* neither full nor half empty */
	atomic_store(&rates->before, capacity);
}

/*
 * The most that ever came is what the link can only if it comes for a while: programs that ask for little have a peak,
 * too.
 */
static void learn(struct rates *rates, uint64_t sum)
{
	const uint64_t peak = atomic_load(&rates->peak);
	const bool is_near = sum >= qclimb_congested_rate(peak);

	if (sum > peak)
		atomic_store(&rates->peak, sum);
	else if (!is_near)
		atomic_store(&rates->peak, peak - peak / PEAK_DECAY);
	if (sum > peak + peak / STEADY_PARTS)
		atomic_store(&rates->steady_samples, 0);
	else if (is_near)
		count_sample(&rates->steady_samples, true);
	else if (atomic_load(&rates->steady_samples) < STEADY_SAMPLES)
		atomic_store(&rates->steady_samples, 0);
}

/*
 * What this sample and the one before say, of `sum` received over this one and `smoothed` over the last ones. Full is
 * half way from alpha C to C over many samples, or alpha C in two.
 */
static enum qclimb_link link_after(struct rates *rates, uint64_t sum, uint64_t smoothed, uint64_t capacity,
				   bool is_told)
{
	const uint64_t congested = qclimb_congested_rate(capacity);

	count_sample(&rates->slack_samples, sum < capacity / 2 && smoothed < capacity / 2);
	count_sample(&rates->full_samples, sum >= congested);
	if (atomic_load(&rates->slack_samples) >= RATES_SEEN_SAMPLES)
		return QCLIMB_LINK_SLACK;
	if (!is_told && atomic_load(&rates->steady_samples) < STEADY_SAMPLES)
		return QCLIMB_LINK_UNKNOWN;
	if (atomic_load(&rates->full_samples) >= RATES_SEEN_SAMPLES || smoothed >= (capacity + congested) / 2)
		return QCLIMB_LINK_FULL;
	return QCLIMB_LINK_UNKNOWN;
}

/*
 * Bytes a second since the last sample; nothing for who was kept from its turn until somebody had taken the next one.
 */
static uint64_t rate_of(struct rates *rates, enum line_flow flow, uint64_t interval_ns)
{
	const uint64_t bytes = atomic_load(&rates->bytes[flow]);
	const uint64_t then = atomic_exchange(&rates->sampled[flow], bytes);

	return bytes > then ? (bytes - then) * QCLIMB_NS_PER_S / interval_ns : 0;
}

/* The link has slack while `flows` stand in line; that it had it with more is forgotten slowly. */
static void note_slack(struct rates *rates, uint32_t flows, uint64_t now)
{
	uint32_t most = atomic_load(&rates->slack_flows);

	most -= (most + SMOOTH - 1) / SMOOTH;
	atomic_store(&rates->slack_flows, flows > most ? flows : most);
	atomic_store(&rates->slack_ns, now);
}

uint64_t rates_due(struct rates *rates, uint64_t now)
{
	uint64_t then = relaxed_get(rates->sampled_ns);

	return is_past(now, then, RATES_SAMPLE_NS) && atomic_compare_exchange_strong(&rates->sampled_ns, &then, now)
		       ? now - then
		       : 0;
}

/*
 * By Algorithm 3 as it stands, those behind get what the head leaves of alpha C; but while they share a full link, that
 * is also what they took from it, and they would give it up only slowly. So, where the link is full (half way from
 * alpha C to C), nothing is left, and what is left later comes back slowly: with 72 flows behind, two segments of each
 * are more than half of what the link carries in 30 ms. The head's window goes by what the head receives: a large flow
 * that fills the link beside it would else take its window away.
 */
bool rates_sample(struct rates *rates, uint64_t told, uint32_t flows, uint64_t interval_ns, uint64_t now)
{
	uint64_t head = rate_of(rates, LINE_HEADS, interval_ns), large = rate_of(rates, LINE_LARGE, interval_ns);
	uint64_t before = head + large + rate_of(rates, LINE_OTHERS, interval_ns);
	const uint64_t came = before + rate_of(rates, LINE_BEHIND, interval_ns);
	const uint64_t capacity = rates_capacity(rates, told);
	uint64_t sum;
	enum qclimb_link link;

	if (interval_ns > ASLEEP_NS) {
		begin(rates, capacity, now);
		return false;
	}
	head = smooth(&rates->smooth_head, head);
	large = smooth(&rates->smooth_large, large);
	before = smooth(&rates->smooth_before, before);
	sum = smooth(&rates->smooth_sum, came);
	learn(rates, sum);
	link = link_after(rates, came, sum, capacity, told);
	if (link == QCLIMB_LINK_FULL) {
		atomic_store(&rates->full_ns, now);
		atomic_store(&rates->room_ns, now);
	} else if (link == QCLIMB_LINK_SLACK) {
		note_slack(rates, flows, now);
	}
	atomic_store(&rates->before, qclimb_rate_before_next(atomic_load(&rates->before), before, capacity, link));
	atomic_store(&rates->window,
		     qclimb_window_next(atomic_load(&rates->window), head, capacity, WINDOW_LEAST, WINDOW_MOST));
	atomic_store(&rates->large_window,
		     qclimb_large_window_next(atomic_load(&rates->large_window), large, capacity,
					      atomic_load(&rates->larges),
					      is_past(now, atomic_load(&rates->full_ns), RATES_LARGE_NS) ? 0 : flows,
					      WINDOW_LEAST, WINDOW_MOST));
	return atomic_load(&rates->slack_samples) == RATES_SEEN_SAMPLES;
}

enum qclimb_link rates_link(const struct rates *rates, uint64_t now)
{
	const uint64_t full_ns = relaxed_get(rates->full_ns), slack_ns = relaxed_get(rates->slack_ns);
	const bool is_full = full_ns > slack_ns;

	if (is_past(now, is_full ? full_ns : slack_ns, is_full ? RATES_FULL_NS : RATES_SLACK_NS))
		return QCLIMB_LINK_UNKNOWN;
	return is_full ? QCLIMB_LINK_FULL : QCLIMB_LINK_SLACK;
}

/* Counted anew in each period rather than up and down: who is killed takes its count along. */
void rates_count_large(struct rates *rates, _Atomic uint32_t *counted, uint64_t now)
{
	const uint32_t period = (uint32_t)(now / RATES_COUNT_NS) + 1; /* a flow's first: 0 */
	uint32_t then = relaxed_get(rates->counted);

	if (then != period && atomic_compare_exchange_strong(&rates->counted, &then, period)) {
		const uint32_t found = atomic_exchange(&rates->larges_now, 0);

		atomic_store(&rates->larges, then + 1 == period ? found : 0);
	}
	if (atomic_exchange_explicit(counted, period, memory_order_relaxed) != period)
		atomic_fetch_add(&rates->larges_now, 1);
}
