/*
 * Varys (SIGCOMM'14): a coflow's *bottleneck* is the time that its fullest port needs for what is left of it.
 *
 *   SEBF   The coflow with the smallest bottleneck first, by what is left and the ports' full capacity; by arrival among
 *          equals.
 *   MADD   Each in turn gets what lets all its flows end at once, as soon as what ports have left allows: left bytes
 *          over that time. One that needs a port which has nothing left gets nothing here.
 *   Rest   Those that got nothing share what is left max-min fair, as one coflow; what then is left goes to each flow in
 *          turn, in the coflows' order, so that no port idles over a flow that could use it.
 *   Deadlines  A coflow is let in if its bottleneck over what the guarantees leave ends in time, else it is dropped.
 *          Each guarantee is left bytes over the time that is left; the rest goes to the earliest deadline first. One
 *          without a deadline is let in without a guarantee.
 * Not here: the share that Varys gives to starved coflows from time to time (the rest keeps most alive), and what its
 * coordinator takes.
 */
#ifndef QCLIMB_SIM_COFLOW_VARYS_H
#define QCLIMB_SIM_COFLOW_VARYS_H

#include "coflow/fair.h"

namespace sim::coflow
{

class Varys
{
      public:
	Varys(uint32_t ports, double capacity) : need_(ports), full_(ports, capacity)
	{
	}

	/* Seconds that the fullest port needs for what is left of the coflow; FOREVER where one has nothing to give. */
	double bottleneck(const Coflow &coflow, const Left &left)
	{
		double longest = 0;

		touched_.clear();
		for (const Flow &flow : coflow.flows)
			for (const uint32_t port : { flow.from, flow.to }) {
				if (need_[port] == 0)
					touched_.push_back(port);
				need_[port] += flow.left;
			}
		for (const uint32_t port : touched_) {
			longest = std::max(longest, left.has(port) ? need_[port] / left.rate[port] : FOREVER);
			need_[port] = 0;
		}
		return longest;
	}

	void share(const Coflows &coflows, Left &left, Fair &fair)
	{
		in_order(coflows, [this](const Coflow &coflow) { return bottleneck(coflow, full_); });
		without_.clear();
		for (Coflow *coflow : order_) {
			const double takes = bottleneck(*coflow, left);
			if (takes == FOREVER)
				without_.push_back(coflow);
			else
				end_together(*coflow, takes, left);
		}
		fair.share(without_, left);
		give_rest(left);
	}

	/* Guarantees of those with a deadline that is ahead. */
	void guarantee(const Coflows &coflows, double now, Left &left) const
	{
		for (Coflow *coflow : coflows)
			if (coflow->due < FOREVER && coflow->due > now)
				end_together(*coflow, coflow->due - now, left);
	}

	void share_by_deadline(const Coflows &coflows, double now, Left &left, Fair &fair)
	{
		guarantee(coflows, now, left);
		in_order(coflows, [](const Coflow &coflow) { return coflow.due; });
		give_rest(left);
		fair.share(coflows, left); /* rounding may have left some */
	}

	/* Whether it can end in time beside those that were let in. */
	bool may_begin(const Coflow &coflow, const Coflows &before, double now)
	{
		if (coflow.due == FOREVER)
			return true;
		Left left = full_;
		guarantee(before, now, left);
		return bottleneck(coflow, left) <= (coflow.due - now) * (1 + 1e-9);
	}

      private:
	template <class Key> void in_order(const Coflows &coflows, Key key)
	{
		keyed_.clear();
		for (Coflow *coflow : coflows)
			keyed_.push_back({ key(*coflow), coflow });
		std::sort(keyed_.begin(), keyed_.end(), [](const Keyed &a, const Keyed &b) {
			return a.key != b.key ? a.key < b.key : a.coflow->number < b.coflow->number;
		});
		order_.clear();
		for (const Keyed &each : keyed_)
			order_.push_back(each.coflow);
	}

	void end_together(Coflow &coflow, double takes, Left &left) const
	{
		for (Flow &flow : coflow.flows) {
			const double rate = std::min({ flow.left / takes, left.rate[flow.from], left.rate[flow.to] });
			flow.rate += rate;
			left.take(flow, rate);
		}
	}

	void give_rest(Left &left)
	{
		for (Coflow *coflow : order_)
			for (Flow &flow : coflow->flows) {
				if (!left.has(flow.from) || !left.has(flow.to))
					continue;
				const double rate = std::min(left.rate[flow.from], left.rate[flow.to]);
				flow.rate += rate;
				left.take(flow, rate);
			}
	}

	struct Keyed {
		double key;
		Coflow *coflow;
	};

	std::vector<double> need_; /* bytes by port; all 0 between calls */
	std::vector<uint32_t> touched_;
	const Left full_;
	std::vector<Keyed> keyed_;
	Coflows order_, without_;
};

} // namespace sim::coflow

#endif
