/*
 * The fluid model of MLFQ and MP-MLFQ (Big-Spine, HPSR'24, section V): flows are liquids, no packets and no delays.
 *
 * K schedulers, each of rate mu/K, each with N queues in strict order of priority (a later queue is served only while all
 * earlier ones are empty, preemptively); within a queue all flows share alike (processor sharing). A flow passes P
 * stages; stage p carries its bytes between thresholds p - 1 and p.
 *   mp    MP-MLFQ: P = K (N - 1) + 1; stage p < P - 1 is queue p / K of scheduler p mod K, the last stage is the last queue of
 *         a scheduler drawn by `spine_shares`.
 *   mlfq  MLFQ under ECMP: a flow stays at one scheduler, drawn alike; P = N, stage p is queue p.
 * Exact and event-driven: a queue's flows are ordered by the virtual time (bytes served to each) at which they leave it,
 * so an event costs a heap operation. Times are doubles, in seconds.
 */
#ifndef QCLIMB_SIM_SCHEMES_FLUID_H
#define QCLIMB_SIM_SCHEMES_FLUID_H

#include "core/scheme.h"

#include <algorithm>
#include <functional>

namespace sim
{

class Fluid
{
      public:
	explicit Fluid(const Config &config)
	    : is_mp_(!config.choice("fluid", { "mp", "mlfq" })), rows_(config.count("queues", 1, 64)),
	      count_(config.count("spines", 1, 1024)),
	      threshold_(config.ascending("thresholds", is_mp_ ? size_t(count_) * (rows_ - 1) : rows_ - 1)),
	      seed_(uint64_t(config.number("seed", 0, INT64_MAX))), shares_(config.numbers("spine_shares", UINT32_MAX)),
	      reader_(2)
	{
		const double rate = double(config.number("rate_bytes_per_1000_s", 1, MOST_TIME)) / 1000 / count_;

		for (uint32_t i = 0; i < count_; i++)
			schedulers_.push_back({ rate, 0, std::vector<Queue>(rows_) });
		for (size_t i = 1; i < shares_.size(); i++)
			shares_[i] += shares_[i - 1];
		if (!shares_.empty() && (shares_.size() != count_ || !shares_.back()))
			refuse("spine_shares has " + std::to_string(shares_.size()) + " numbers that add up to " +
			       std::to_string(shares_.back()) + ", expected " + std::to_string(count_) + ", not all 0");
		config.refuse_unknown();
	}

	int run()
	{
		bool has_next = reader_.read(&next_);

		while (has_next || under_way_) {
			size_t first = schedulers_.size();
			double at = has_next ? double(next_.start_ps) * 1e-12 : FOREVER;
			for (size_t i = 0; i < schedulers_.size(); i++)
				if (schedulers_[i].leaves_at < at) {
					at = schedulers_[i].leaves_at;
					first = i;
				}
			events_++;
			if (first == schedulers_.size()) {
				begin(at);
				has_next = reader_.read(&next_);
			} else {
				leave(first, at);
			}
		}
		rusage used = {};
		getrusage(RUSAGE_SELF, &used);
		const double cpu = double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
				   1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
		writer_.close("{\"flows\":" + std::to_string(begun_) + ",\"events\":" + std::to_string(events_) +
			      ",\"peak_flows\":" + std::to_string(flows_.peak()) + ",\"peak_rss_kib\":" +
			      std::to_string(peak_memory_kib()) + ",\"cpu_seconds\":" + std::to_string(cpu) + "}");
		return 0;
	}

      private:
	static constexpr double FOREVER = 1e300;

	struct Flow : FlowBase {
		uint32_t stage = 0, scheduler = 0;
		uint64_t served = 0; /* bytes, by the stages that are over */
	};

	struct Waiting {
		double leaves; /* the queue's virtual time at which it does */
		Flow *flow;
		bool operator>(const Waiting &other) const
		{
			return leaves > other.leaves;
		}
	};

	struct Queue {
		double virtual_bytes = 0; /* served to each flow since the queue was last empty */
		std::vector<Waiting> heap;
	};

	struct Scheduler {
		double rate; /* bytes a second */
		double now; /* up to when virtual times are reckoned */
		std::vector<Queue> rows;
		double leaves_at = FOREVER; /* when the next flow leaves a queue, if nothing comes */

		Queue *served()
		{
			for (Queue &queue : rows)
				if (!queue.heap.empty())
					return &queue;
			return nullptr;
		}

		void advance(double to)
		{
			if (Queue *queue = served())
				queue->virtual_bytes += (to - now) * rate / double(queue->heap.size());
			now = to;
		}

		void look_ahead()
		{
			Queue *queue = served();

			leaves_at = FOREVER;
			if (queue) {
				const double left = queue->heap.front().leaves - queue->virtual_bytes;
				leaves_at = now + std::max(left, 0.0) * double(queue->heap.size()) / rate;
			}
		}
	};

	void begin(double now)
	{
		Flow *flow = flows_.make();

		flow->index = begun_++;
		flow->start = next_.start_ps;
		flow->size_bytes = next_.size_bytes;
		flow->scheduler = uint32_t(mix(flow->index, seed_) % schedulers_.size());
		under_way_++;
		enter(flow, now);
	}

	/* Into the queue of its stage. */
	void enter(Flow *flow, double now)
	{
		const bool is_last = flow->stage == threshold_.size();
		uint32_t row = flow->stage, at = flow->scheduler;

		if (is_mp_) {
			row = is_last ? rows_ - 1 : flow->stage / count_;
			at = is_last ? by_share(mix(flow->index, seed_ + 1)) : flow->stage % count_;
		}
		const uint64_t end = is_last ? flow->size_bytes : std::min(flow->size_bytes, threshold_[flow->stage]);
		Scheduler &scheduler = schedulers_[at];
		scheduler.advance(now);
		Queue &queue = scheduler.rows[row];
		if (queue.heap.empty())
			queue.virtual_bytes = 0; /* keeps the doubles small */
		queue.heap.push_back({ queue.virtual_bytes + double(end - flow->served), flow });
		std::push_heap(queue.heap.begin(), queue.heap.end(), std::greater<Waiting>());
		flow->served = end;
		scheduler.look_ahead();
	}

	void leave(size_t at, double now)
	{
		Scheduler &scheduler = schedulers_[at];
		Queue *queue = scheduler.served();
		Flow *flow = queue->heap.front().flow;

		scheduler.advance(now);
		queue->virtual_bytes = queue->heap.front().leaves;
		std::pop_heap(queue->heap.begin(), queue->heap.end(), std::greater<Waiting>());
		queue->heap.pop_back();
		scheduler.look_ahead();
		if (flow->served < flow->size_bytes) {
			flow->stage++;
			enter(flow, now);
			return;
		}
		flow->received = flow->acked = Time(now * 1e12 + 0.5);
		writer_.write(*flow);
		flows_.drop(flow);
		under_way_--;
	}

	uint32_t by_share(uint64_t hash) const
	{
		if (shares_.empty())
			return uint32_t(hash % schedulers_.size());
		const uint64_t at = hash % shares_.back();
		return uint32_t(std::upper_bound(shares_.begin(), shares_.end(), at) - shares_.begin());
	}

	const bool is_mp_;
	const uint32_t rows_, count_;
	const std::vector<uint64_t> threshold_;
	const uint64_t seed_;
	std::vector<uint64_t> shares_; /* running sums */
	FlowReader reader_;
	ResultWriter writer_;
	Pool<Flow> flows_;
	FlowRecord next_ = {};
	uint64_t begun_ = 0, under_way_ = 0, events_ = 0;
	std::vector<Scheduler> schedulers_;
};

static const Scheme FLUID_SCHEME("fluid", run_as<Fluid>);

} // namespace sim

#endif
