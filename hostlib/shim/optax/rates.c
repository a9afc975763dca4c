#include "optax/rates.h"

#define WINDOW_LEAST 2u
#define WINDOW_MOST 64u
#define SMOOTH 8
#define ASLEEP_NS (100 * RATES_SAMPLE_NS)
#define SEEN_SAMPLES 2u /* one after another: an application's burst is over after the first */
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

/* Of a time that is 0 where it never was. */
static bool is_within(uint64_t now, uint64_t then, uint64_t ns)
{
	return then && (then >= now || now - then <= ns);
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
	if (atomic_load(&rates->slack_samples) >= SEEN_SAMPLES)
		return QCLIMB_LINK_SLACK;
	if (!is_told && atomic_load(&rates->steady_samples) < STEADY_SAMPLES)
		return QCLIMB_LINK_UNKNOWN;
	if (atomic_load(&rates->full_samples) >= SEEN_SAMPLES || smoothed >= (capacity + congested) / 2)
		return QCLIMB_LINK_FULL;
	return QCLIMB_LINK_UNKNOWN;
}

/* What came since the last sample; nothing for who was kept from its turn until somebody had taken the next one. */
static uint64_t came_since(_Atomic uint64_t *sampled, uint64_t bytes)
{
	const uint64_t then = atomic_exchange(sampled, bytes);

	return bytes > then ? bytes - then : 0;
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
	enum qclimb_link link;
	uint64_t came;

	if (now <= then || now - then <= RATES_SAMPLE_NS ||
	    !atomic_compare_exchange_strong(&rates->sampled_ns, &then, now))
		return false;
	head = atomic_load(&rates->bytes[LINE_HEADS]);
	large = atomic_load(&rates->bytes[LINE_LARGE]);
	before = head + large + atomic_load(&rates->bytes[LINE_OTHERS]);
	sum = before + atomic_load(&rates->bytes[LINE_BEHIND]);
	head = came_since(&rates->sampled_head, head);
	large = came_since(&rates->sampled_large, large);
	before = came_since(&rates->sampled_before, before);
	sum = came_since(&rates->sampled_sum, sum);
	capacity = rates_capacity(rates, told);
	if (now - then > ASLEEP_NS) {
		begin(rates, capacity, now);
		return true;
	}
	head = smooth(&rates->smooth_head, head * QCLIMB_NS_PER_MS * 1000 / (now - then));
	smooth(&rates->smooth_large, large * QCLIMB_NS_PER_MS * 1000 / (now - then));
	before = smooth(&rates->smooth_before, before * QCLIMB_NS_PER_MS * 1000 / (now - then));
	came = sum * QCLIMB_NS_PER_MS * 1000 / (now - then);
	sum = smooth(&rates->smooth_sum, came);
	learn(rates, sum);
	link = link_after(rates, came, sum, capacity, told);
	if (link == QCLIMB_LINK_FULL) {
		atomic_store(&rates->full_ns, now);
		atomic_store(&rates->room_ns, now);
	}
	atomic_store(&rates->before, qclimb_rate_before_next(atomic_load(&rates->before), before, capacity, link));
	atomic_store(&rates->window,
		     qclimb_window_next(atomic_load(&rates->window), head, capacity, WINDOW_LEAST, WINDOW_MOST));
	return true;
}

bool rates_note_slack(struct rates *rates, uint32_t flows, uint64_t now)
{
	const uint32_t samples = atomic_load(&rates->slack_samples);
	uint32_t most = atomic_load(&rates->slack_flows);

	if (samples < SEEN_SAMPLES)
		return false;
	most -= (most + SMOOTH - 1) / SMOOTH;
	atomic_store(&rates->slack_flows, flows > most ? flows : most);
	atomic_store(&rates->slack_ns, now);
	return samples == SEEN_SAMPLES;
}

bool rates_have_slack(const struct rates *rates)
{
	return atomic_load_explicit(&rates->slack_samples, memory_order_relaxed) >= SEEN_SAMPLES;
}

enum qclimb_link rates_link(const struct rates *rates, uint64_t now, uint32_t *slack_flows)
{
	const uint64_t full_ns = atomic_load_explicit(&rates->full_ns, memory_order_relaxed);
	const uint64_t slack_ns = atomic_load_explicit(&rates->slack_ns, memory_order_relaxed);

	*slack_flows = 0;
	if (slack_ns >= full_ns && is_within(now, slack_ns, RATES_SLACK_NS)) {
		*slack_flows = atomic_load_explicit(&rates->slack_flows, memory_order_relaxed);
		return QCLIMB_LINK_SLACK;
	}
	return slack_ns < full_ns && is_within(now, full_ns, RATES_LINK_NS) ? QCLIMB_LINK_FULL : QCLIMB_LINK_UNKNOWN;
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
	const bool is_full = is_within(now, atomic_load(&rates->full_ns), RATES_FULL_NS);

	atomic_store(&rates->large_window,
		     qclimb_large_window_next(atomic_load(&rates->large_window), atomic_load(&rates->smooth_large),
					      rates_capacity(rates, told), atomic_load(&rates->larges),
					      is_full ? smalls : 0, WINDOW_LEAST, WINDOW_MOST));
}
