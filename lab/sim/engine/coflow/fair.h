/*
 * Max-min fair shares of what ports have left: what many long TCP flows come to. The port whose equal share is the least
 * decides for all flows through it; they and what they take are gone, and so on (progressive filling). O(flows + ports
 * log ports).
 */
#ifndef QCLIMB_SIM_COFLOW_FAIR_H
#define QCLIMB_SIM_COFLOW_FAIR_H

#include "coflow/state.h"

#include <functional>

namespace sim::coflow
{

class Fair
{
      public:
	explicit Fair(uint32_t ports) : count_(ports), first_(ports + 1)
	{
	}

	/* Adds to the rates of the coflows' flows, all alike whichever coflow they are of, and takes it from `left`. */
	void share(const Coflows &coflows, Left &left)
	{
		flows_.clear();
		for (Coflow *coflow : coflows)
			for (Flow &flow : coflow->flows)
				if (left.has(flow.from) && left.has(flow.to))
					flows_.push_back(&flow);
		if (flows_.empty())
			return;
		by_port();
		open_.assign(flows_.size(), true);
		heap_.clear();
		for (const uint32_t port : ports_)
			heap_.push_back({ left.rate[port] / count_[port], port });
		std::make_heap(heap_.begin(), heap_.end(), Later());
		while (!heap_.empty())
			fill(left);
		for (const uint32_t port : ports_)
			count_[port] = 0;
	}

	void share(Coflow *coflow, Left &left)
	{
		one_.assign(1, coflow);
		share(one_, left);
	}

      private:
	struct Share {
		double rate;
		uint32_t port;
	};
	struct Later {
		bool operator()(const Share &a, const Share &b) const
		{
			return a.rate > b.rate || (a.rate == b.rate && a.port > b.port);
		}
	};

	/* The flows of each port, in `at_` from first_[port] on. */
	void by_port()
	{
		ports_.clear();
		for (const Flow *flow : flows_)
			for (const uint32_t port : { flow->from, flow->to })
				if (!count_[port]++)
					ports_.push_back(port);
		uint32_t sum = 0;
		for (const uint32_t port : ports_) {
			first_[port] = sum;
			sum += count_[port];
		}
		at_.resize(sum);
		for (uint32_t i = 0; i < flows_.size(); i++) {
			at_[first_[flows_[i]->from]++] = i;
			at_[first_[flows_[i]->to]++] = i;
		}
		for (const uint32_t port : ports_)
			first_[port] -= count_[port];
		total_ = count_;
	}

	void fill(Left &left)
	{
		const Share next = heap_.front();
		std::pop_heap(heap_.begin(), heap_.end(), Later());
		heap_.pop_back();
		if (!count_[next.port])
			return;
		const double rate = left.rate[next.port] / count_[next.port];
		if (rate > next.rate * (1 + 1e-12)) { /* others have left since: more for each */
			heap_.push_back({ rate, next.port });
			std::push_heap(heap_.begin(), heap_.end(), Later());
			return;
		}
		for (uint32_t k = first_[next.port]; k < first_[next.port] + total_[next.port]; k++) {
			if (!open_[at_[k]])
				continue;
			Flow &flow = *flows_[at_[k]];
			open_[at_[k]] = false;
			flow.rate += rate;
			left.take(flow, rate);
			count_[flow.from]--;
			count_[flow.to]--;
		}
	}

	std::vector<Flow *> flows_;
	std::vector<char> open_; /* its rate is not decided */
	std::vector<uint32_t> count_; /* of each port's open flows; all 0 between calls */
	std::vector<uint32_t> total_, first_, at_, ports_;
	std::vector<Share> heap_;
	Coflows one_;
};

} // namespace sim::coflow

#endif
