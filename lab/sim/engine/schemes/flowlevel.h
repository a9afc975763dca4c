/*
 * PDQ, RCP and D3 without packets: flows are liquids that have their rates from their links at once (PDQ, SIGCOMM'12,
 * section 5.5). Between two events (a flow begins, ends, gives up or changes its place) all rates stand; so times are
 * exact and no step is needed, but where what rates go by changes with time (aging, D3's deadlines): then every STEP.
 * The paper's rates change at whole multiples of 1 ms alone, and links stand idle until then: step_ps.
 *
 *   pdq  in order of criticality each flow gets what its links have left (the centralised algorithm, section 3)
 *   rcp  each link's flows have equal shares; a flow has its least one
 *   d3   in order of arrival each flow gets what its deadline needs, as far as that is there, and its share of what no
 *        deadline needs (links/d3.h)
 * Kept of packets, each from the protocol's own numbers:
 *   bytes of headers; the way of the last packet; a rate below a packet a round trip is none
 *   a round trip of headers before the first data. Under PDQ one more after each wait, for a paused flow asks: but not
 *     where another flow ended, for early start asks K round trips ahead, which is a question and its answer; nor where
 *     it has overtaken another (goes by what was sent, or ages), which sends until then
 *   an ACK a packet on the links back
 * Left out: questions of paused flows, queues, losses, what a sender does before all links of its path have had their say.
 */
#ifndef QCLIMB_SIM_SCHEMES_FLOWLEVEL_H
#define QCLIMB_SIM_SCHEMES_FLOWLEVEL_H

#include "core/scheme.h"
#include "schemes/criticality.h"

#include <cmath>
#include <queue>

namespace sim
{

class FlowLevel
{
      public:
	explicit FlowLevel(const Config &config)
	    : topology_(config), rule_(Rule(config.choice("rule", { "pdq", "rcp", "d3" }))),
	      payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      ps_per_byte_(double(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE))),
	      terminates_(config.flag("terminates")), has_aging_(config.count("aging_tenths", 0, 1000) > 0),
	      criticality_(config), step_(double(config.number("step_ps", 0, MOST_STEP))),
	      end_(double(config.number("end_ps", 1, MOST_TIME))), reader_(topology_.hosts())
	{
		topology_.answers_return = true;
		for (const Link &link : topology_.links)
			full_.push_back(1 / double(link.ps_per_byte));
		count_.resize(full_.size());
		left_.resize(full_.size(), -FOREVER);
		config.refuse_unknown();
	}

	int run()
	{
		bool has_next = reader_.read(&next_);

		while (has_next || !waiting_.empty() || !active_.empty()) {
			double at = std::min(has_next ? double(next_.start_ps) : FOREVER, changes_at());
			at = std::min({ at, waiting_.empty() ? FOREVER : waiting_.top().first, grants_at_ });
			if (at > end_)
				break;
			advance(at);
			events_++;
			if (has_next && double(next_.start_ps) <= now_) {
				begin();
				has_next = reader_.read(&next_);
			}
			bool is_changed = has_aging_ || rule_ == Rule::D3 || criticality_.goes_by_sent();
			for (; !waiting_.empty() && waiting_.top().first <= now_; waiting_.pop()) {
				enter(waiting_.top().second);
				is_changed = true;
			}
			if (retire() || is_changed)
				grants_at_ = std::min(grants_at_, step_ > 0 ? std::ceil(now_ / step_) * step_ : now_);
			if (now_ >= grants_at_) {
				grants_at_ = FOREVER;
				grant();
			}
		}
		const uint64_t left = active_.size() + waiting_.size();
		for (const Flow *flow : active_)
			writer_.write(*flow);
		for (; !waiting_.empty(); waiting_.pop())
			writer_.write(*waiting_.top().second);
		writer_.close(json_of(Counts(), { begun_, left, events_, Time(now_), 0, flows_.peak() }, ""));
		return 0;
	}

      private:
	enum class Rule { PDQ, RCP, D3 };
	static constexpr double FOREVER = 1e300, STEP = 1e9 /* 1 ms */, CLOSE = 1e-3 /* bytes */;
	static constexpr uint64_t MOST_STEP = 1'000'000'000'000; /* 1 s */
	static constexpr double ENOUGH = 0.125; /* links/pdq.h */

	struct Flow : FlowBase {
		std::vector<uint32_t> path, back; /* links of data, of ACKs */
		double left = 0, gone = 0; /* bytes on the wire */
		double rate = 0; /* bytes a ps, from `begins` on */
		double begins = 0;
		bool waits = false, sends = false; /* it was told to send nothing, or something */
		double round_trip = 0, tail = 0; /* of headers; of the last packet beyond its first link */
		double paused = 0, key = 0;
	};
	using Starting = std::pair<double, Flow *>;
	struct Later {
		bool operator()(const Starting &a, const Starting &b) const
		{
			return a.first != b.first ? a.first > b.first : a.second->index > b.second->index;
		}
	};

	void begin()
	{
		Flow *flow = flows_.make();
		Packet packet(flow);

		fill(*flow, next_, begun_++, payload_);
		flow->path = links_of(packet);
		packet.to_sender = true;
		flow->back = links_of(packet);
		flow->left = double(flow->size_bytes) + double(flow->packets) * header_;
		for (const uint32_t link : flow->path) {
			const double delay = double(topology_.links[link].delay), slow = 1 / full_[link];
			flow->round_trip += 2 * (delay + header_ * slow);
			flow->tail += delay + (link == flow->path[0] ? 0 : (flow->last_bytes + header_) * slow);
		}
		waiting_.push({ double(flow->start) + flow->round_trip, flow });
	}

	std::vector<uint32_t> links_of(Packet &packet)
	{
		packet.hop = 0;
		std::vector<uint32_t> found = { topology_.route(packet) };
		for (packet.hop = 1; packet.hop < packet.hops; packet.hop++)
			found.push_back(topology_.next_port(packet));
		return found;
	}

	double speed(const Flow &flow) const
	{
		return now_ < flow.begins ? 0 : flow.rate;
	}

	void enter(Flow *flow)
	{
		for (const uint32_t link : flow->path)
			count_[link]++;
		active_.push_back(flow);
	}

	void advance(double to)
	{
		for (Flow *flow : active_) {
			const double bytes = speed(*flow) * (to - now_);
			flow->left -= bytes;
			flow->gone += bytes;
			flow->paused += flow->rate > 0 ? 0 : to - now_;
		}
		now_ = to;
	}

	/* When, with rates as they are, the first flow ends, gives up, or changes its place. */
	double changes_at() const
	{
		const double step = has_aging_ || (rule_ == Rule::D3 && has_deadlines_) ? now_ + STEP : FOREVER;
		double at = active_.empty() ? FOREVER : step;

		for (const Flow *flow : active_) {
			const double speed_now = speed(*flow);
			if (now_ < flow->begins)
				at = std::min(at, flow->begins);
			if (speed_now > 0)
				at = std::min(at, now_ + std::max(0.0, flow->left / speed_now));
			if (speed_now > 0 && criticality_.goes_by_sent())
				at = std::min(at, now_ + (sent_step(*flow) + STEP_BYTES - flow->gone) / speed_now + 1);
			if (terminates_ && flow->due != NEVER)
				at = std::min(at, std::max(now_ + 1, hopeless_at(*flow)));
		}
		return at;
	}

	static constexpr double STEP_BYTES = double(Criticality::STEP_BYTES);

	static double sent_step(const Flow &flow)
	{
		return double(uint64_t(flow.gone / STEP_BYTES)) * STEP_BYTES;
	}

	double hopeless_at(const Flow &flow) const
	{
		const double spare = double(flow.due) - now_ - flow.left * ps_per_byte_;
		const double lost = 1 - speed(flow) * ps_per_byte_; /* of spare time, a unit of time */

		return lost > 1e-9 ? now_ + spare / lost : FOREVER;
	}

	bool is_hopeless(const Flow &flow) const
	{
		if (!terminates_ || flow.due == NEVER)
			return false;
		const double due = double(flow.due);
		return now_ + flow.left * ps_per_byte_ > due + 1 ||
		       (rule_ == Rule::PDQ && flow.rate <= 0 && now_ + flow.round_trip > due);
	}

	/* Returns whether any flow was over. */
	bool retire()
	{
		const size_t before = active_.size();
		size_t kept = 0;

		for (Flow *flow : active_) {
			const bool is_done = flow->left <= CLOSE;
			if (!is_done && !is_hopeless(*flow)) {
				active_[kept++] = flow;
				continue;
			}
			if (is_done) {
				flow->received = Time(now_ + flow->tail);
				flow->acked = Time(now_ + flow->tail + flow->round_trip / 2);
			}
			for (const uint32_t link : flow->path) {
				count_[link]--;
				left_[link] = is_done ? now_ : left_[link];
			}
			writer_.write(*flow);
			flows_.drop(flow);
		}
		active_.resize(kept);
		return kept < before;
	}

	void grant()
	{
		has_deadlines_ = false;
		for (const Flow *flow : active_)
			has_deadlines_ = has_deadlines_ || flow->due != NEVER;
		if (rule_ == Rule::PDQ)
			sort();
		capacity_ = full_;
		allot();
		leave_room();
		allot();
		if (rule_ == Rule::PDQ)
			hand_over();
	}

	/* Flows that waited and have room now begin; the least critical first, so that each sees whom it has overtaken. */
	void hand_over()
	{
		for (size_t i = active_.size(); i-- > 0;) {
			Flow &flow = *active_[i];
			if (flow.waits && flow.rate > 0)
				flow.begins = begins(flow);
			if (flow.sends && flow.rate <= 0)
				for (const uint32_t link : flow.path)
					left_[link] = now_;
			flow.sends = flow.rate > 0;
			flow.waits = !flow.sends;
		}
	}

	double begins(const Flow &flow) const
	{
		for (const uint32_t link : flow.path)
			if (left_[link] >= now_ - step_)
				return now_;
		return now_ + flow.round_trip;
	}

	/* Links keep what ACKs take of them while rates are as they are. */
	void leave_room()
	{
		for (const Flow *flow : active_)
			for (const uint32_t link : flow->back)
				capacity_[link] =
					std::max(0.0, capacity_[link] - flow->rate * header_ / (payload_ + header_));
	}

	void allot()
	{
		switch (rule_) {
		case Rule::PDQ:
			return in_order();
		case Rule::RCP:
			for (Flow *flow : active_) {
				flow->rate = 1 / ps_per_byte_;
				for (const uint32_t link : flow->path)
					flow->rate = std::min(flow->rate, capacity_[link] / count_[link]);
			}
			return;
		case Rule::D3:
			return by_request();
		}
	}

	/* The most critical flow first. */
	void sort()
	{
		for (Flow *flow : active_)
			flow->key =
				double(criticality_.number(flow->index, Time(flow->left * ps_per_byte_),
							   Time(sent_step(*flow) * ps_per_byte_), Time(flow->paused)));
		const auto is_before = [this](const Flow *a, const Flow *b) {
			const Time one = criticality_.due(a->due), other = criticality_.due(b->due);
			if (one != other)
				return one < other;
			return a->key != b->key ? a->key < b->key : a->index < b->index;
		};
		for (size_t i = 1; i < active_.size(); i++) { /* they are in order but for a few */
			Flow *flow = active_[i];
			size_t at = i;
			for (; at > 0 && is_before(flow, active_[at - 1]); at--)
				active_[at] = active_[at - 1];
			active_[at] = flow;
		}
	}

	void in_order()
	{
		free_ = capacity_;
		for (Flow *flow : active_) {
			double rate = 1 / ps_per_byte_;
			for (const uint32_t link : flow->path)
				rate = std::min(rate, free_[link]);
			const bool is_enough =
				rate * flow->round_trip >= payload_ + header_ || rate * ps_per_byte_ >= ENOUGH;
			flow->rate = is_enough ? rate : 0;
			for (const uint32_t link : flow->path)
				free_[link] -= flow->rate;
		}
	}

	void by_request()
	{
		std::vector<double> wanted, demand(full_.size());

		std::sort(active_.begin(), active_.end(),
			  [](const Flow *a, const Flow *b) { return a->index < b->index; });
		for (const Flow *flow : active_) {
			const double until = double(flow->due) - now_ - flow->round_trip;
			const double most = 1 / ps_per_byte_;
			wanted.push_back(flow->due == NEVER ? 0
					 : until > 0	    ? std::min(most, flow->left / until)
							    : most);
			for (const uint32_t link : flow->path)
				demand[link] += wanted.back();
		}
		free_ = capacity_;
		for (size_t i = 0; i < active_.size(); i++) {
			Flow *flow = active_[i];
			flow->rate = 1 / ps_per_byte_;
			for (const uint32_t link : flow->path) {
				const double share = std::max(0.0, capacity_[link] - demand[link]) / count_[link];
				const double given = std::min(free_[link], wanted[i] + share);
				free_[link] -= given;
				flow->rate = std::min(flow->rate, given);
			}
		}
	}

	Topology topology_;
	const Rule rule_;
	const uint32_t payload_, header_;
	const double ps_per_byte_;
	const bool terminates_, has_aging_;
	const Criticality criticality_;
	const double step_, end_; /* ps */
	FlowReader reader_;
	ResultWriter writer_;
	Pool<Flow> flows_;
	FlowRecord next_ = {};
	std::priority_queue<Starting, std::vector<Starting>, Later>
		waiting_; /* for their first round trip to be over */
	std::vector<Flow *> active_;
	std::vector<double> full_, capacity_, free_; /* bytes a ps, by link: all, for data, not yet given */
	std::vector<uint32_t> count_;
	std::vector<double>
		left_; /* by link: when a flow last sent its last there, or gave way to one that has overtaken it */
	uint64_t begun_ = 0, events_ = 0;
	double now_ = 0, grants_at_ = FOREVER;
	bool has_deadlines_ = false;
};

static const Scheme FLOW_SCHEME("flow", run_as<FlowLevel>);

} // namespace sim

#endif
