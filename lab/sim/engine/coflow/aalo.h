/*
 * Aalo (SIGCOMM'15): D-CLAS, for coflows whose sizes nobody knows. A coflow is in the first of K queues until all its
 * flows together have sent `first_bytes` (10 MB), in the next until they have sent `factor` (10) times as much, and so
 * on; the last queue has no end.
 *
 *   Across queues  Each queue that has coflows gets a share of every port by its weight: K for the first, one less for
 *                  each later one. The paper says that weights fall with the queue, not how: these are ours. Weights of
 *                  `strict` serve a queue only with what the queues before leave (as CoflowSim does).
 *   Within         First in, first out; a coflow's own flows share max-min fair.
 *   Rest           What a queue's share leaves idle goes to all coflows, the first queue's first.
 *   Coordinator    Hosts tell it what each coflow has sent, and it tells them the sums, every `interval` (10 ms), on the
 *                  clock of the starts. A coflow changes its queue at such a moment alone, by what it has sent until
 *                  then; in between it keeps its queue, however much it sends. A new one is in the first queue at once,
 *                  for hosts need nobody to say so. 0: sums are known at every moment.
 * Not here: how old sums are when they arrive, and that a sender does not know how full a receiver's port is.
 */
#ifndef QCLIMB_SIM_COFLOW_AALO_H
#define QCLIMB_SIM_COFLOW_AALO_H

#include "coflow/fair.h"
#include "core/config.h"

#include <cmath>

namespace sim::coflow
{

class Aalo
{
	static constexpr double SAME_MOMENT = 1e-6; /* of an interval: nearer is rounding */

      public:
	explicit Aalo(const Config &config)
	    : queues_(config.count("queues", 1, 64)), factor_(double(config.count("queue_factor", 2, 1000))),
	      first_bytes_(double(config.number("queue_first_bytes", 1, MOST_BYTES))),
	      is_strict_(config.choice("queue_weights", { "falling", "strict" }) == 1),
	      interval_(double(config.number("queue_interval_ps", 0, MOST_PS)) * 1e-12)
	{
	}

	/* Sends those on that have sent enough, where the coordinator speaks now. */
	void demote(const Coflows &coflows, double now) const
	{
		if (interval_ > 0 && std::abs(now - std::round(now / interval_) * interval_) > interval_ * SAME_MOMENT)
			return;
		for (Coflow *coflow : coflows)
			while (coflow->queue + 1 < queues_ && coflow->sent >= end_of(coflow->queue) * (1 - 1e-9))
				coflow->queue++;
	}

	/* When the first of them, at these rates, changes its queue, seconds from now; too early where flows end before. */
	double next_change(const Coflows &coflows, double now) const
	{
		const double enough = next_enough(coflows);

		if (!(interval_ > 0) || enough == FOREVER)
			return enough;
		const double ahead = std::floor(now / interval_ + SAME_MOMENT) + 1;
		return std::max(ahead, std::ceil((now + enough) / interval_ - SAME_MOMENT)) * interval_ - now;
	}

	void share(const Coflows &coflows, Left &left, Fair &fair)
	{
		order_ = coflows;
		std::sort(order_.begin(), order_.end(), [](const Coflow *a, const Coflow *b) {
			return a->queue != b->queue ? a->queue < b->queue : a->number < b->number;
		});
		if (!is_strict_)
			by_weight(left, fair);
		for (Coflow *coflow : order_)
			fair.share(coflow, left);
	}

      private:
	/* When the first of them has sent what its queue ends with. */
	double next_enough(const Coflows &coflows) const
	{
		double soonest = FOREVER;

		for (const Coflow *coflow : coflows) {
			double rate = 0;
			if (coflow->queue + 1 >= queues_)
				continue;
			for (const Flow &flow : coflow->flows)
				rate += flow.rate;
			const double missing = std::max(0.0, end_of(coflow->queue) - coflow->sent);
			if (rate > 0 || missing == 0)
				soonest = std::min(soonest, missing > 0 ? missing / rate : 0);
		}
		return soonest;
	}

	void by_weight(Left &left, Fair &fair) const
	{
		double weights = 0;
		uint32_t seen = UINT32_MAX;

		for (const Coflow *coflow : order_)
			if (coflow->queue != seen) {
				seen = coflow->queue;
				weights += double(queues_ - seen);
			}
		const Left all = left;
		for (size_t i = 0; i < order_.size();) {
			const uint32_t queue = order_[i]->queue;
			const double part = double(queues_ - queue) / weights;
			Left own = all;
			for (double &rate : own.rate)
				rate *= part;
			const Left before = own;
			for (; i < order_.size() && order_[i]->queue == queue; i++)
				fair.share(order_[i], own);
			for (size_t port = 0; port < own.rate.size(); port++)
				left.rate[port] = std::max(0.0, left.rate[port] - (before.rate[port] - own.rate[port]));
		}
	}

	double end_of(uint32_t queue) const
	{
		double bytes = first_bytes_;

		while (queue--)
			bytes *= factor_;
		return bytes;
	}

	const uint32_t queues_;
	const double factor_, first_bytes_;
	const bool is_strict_;
	const double interval_; /* seconds */
	Coflows order_;
};

} // namespace sim::coflow

#endif
