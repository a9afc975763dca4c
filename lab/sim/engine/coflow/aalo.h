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
 * Not here: the coordinator's interval (10 ms in the paper); what a coflow has sent is known at once.
 */
#ifndef QCLIMB_SIM_COFLOW_AALO_H
#define QCLIMB_SIM_COFLOW_AALO_H

#include "coflow/fair.h"
#include "core/config.h"

namespace sim::coflow
{

class Aalo
{
      public:
	explicit Aalo(const Config &config)
	    : queues_(config.count("queues", 1, 64)), factor_(double(config.count("queue_factor", 2, 1000))),
	      first_bytes_(double(config.number("queue_first_bytes", 1, MOST_BYTES))),
	      is_strict_(config.choice("queue_weights", { "falling", "strict" }) == 1)
	{
	}

	/* Sends those on that have sent enough. */
	void demote(const Coflows &coflows) const
	{
		for (Coflow *coflow : coflows)
			while (coflow->queue + 1 < queues_ && coflow->sent >= end_of(coflow->queue) * (1 - 1e-9))
				coflow->queue++;
	}

	/* When the first of them, at these rates, changes its queue, seconds from now; too early where flows end before. */
	double next_change(const Coflows &coflows) const
	{
		double soonest = FOREVER;

		for (const Coflow *coflow : coflows) {
			double rate = 0;
			if (coflow->queue + 1 >= queues_)
				continue;
			for (const Flow &flow : coflow->flows)
				rate += flow.rate;
			if (rate > 0)
				soonest = std::min(soonest, (end_of(coflow->queue) - coflow->sent) / rate);
		}
		return soonest;
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
	Coflows order_;
};

} // namespace sim::coflow

#endif
