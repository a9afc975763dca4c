/*
 * Coflows over one big switch, rate by rate: the level for schedulers that grant rates (Varys, Aalo) and for traces of
 * hours. Exact and event-driven; no packets, no headers, no delays.
 *
 * Rates are set anew when a coflow begins or ends, when one changes its queue (aalo.h), and at flows' ends: at each
 * (`flow_ends_ps` 0), at most every so often, or never (-1, Varys's own rule); at each of a small coflow's. Between two such moments flows end where
 * their rates take them.
 *
 * `small`: how coflows go whose every flow is small (OPTAX's rule, <qclimb/coflow.h>), all before the others: none (they
 * go with the others), fair, fifo (OPTAX: by arrival), shortest (OPTAX's oracle: the fewest bytes left first).
 * `large`: how the others share what is left: fair, fifo, shortest, varys, deadlines (Varys's), aalo.
 */
#ifndef QCLIMB_SIM_COFLOW_RUN_H
#define QCLIMB_SIM_COFLOW_RUN_H

#include "coflow/aalo.h"
#include "coflow/varys.h"
#include "core/scheme.h"

#include <qclimb/coflow.h>

#include <memory>

namespace sim::coflow
{

class Fluid
{
	enum class Small { NONE, FAIR, FIFO, SHORTEST };
	enum class Large { FAIR, FIFO, SHORTEST, VARYS, DEADLINES, AALO };

      public:
	explicit Fluid(const Config &config)
	    : hosts_(config.count("hosts", 1, MOST_HOSTS)),
	      capacity_(1e12 / double(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE))),
	      small_(Small(config.choice("small", { "none", "fair", "fifo", "shortest" }))),
	      large_(Large(config.choice("large", { "fair", "fifo", "shortest", "varys", "deadlines", "aalo" }))),
	      small_bytes_(config.bytes("small_coflow_bytes")),
	      flow_ends_(double(config.number("flow_ends_ps", -1, MOST_PS)) * 1e-12), fair_(2 * hosts_),
	      varys_(2 * hosts_, capacity_), aalo_(config), full_(2 * hosts_, capacity_), left_(full_),
	      reader_(2 * hosts_)
	{
		config.refuse_unknown();
	}

	int run()
	{
		has_next_ = reader_.read(&next_);
		while (has_next_ || !active_.empty()) {
			if (active_.empty())
				now_ = std::max(now_, double(next_.start_ps) * 1e-12);
			while (has_next_ && double(next_.start_ps) * 1e-12 <= now_)
				begin();
			if (active_.empty())
				continue;
			allocate();
			advance(step());
		}
		finish();
		return 0;
	}

      private:
	/* The coflow of the next record, and all records of it that follow. */
	void begin()
	{
		auto coflow = std::make_unique<Coflow>();

		coflow->task = next_.task;
		coflow->number = coflows_++;
		coflow->start_ps = next_.start_ps;
		coflow->begins = double(next_.start_ps) * 1e-12;
		coflow->due = next_.deadline_ps ? double(next_.deadline_ps) * 1e-12 : FOREVER;
		do {
			coflow->flows.push_back(
				{ begun_++, next_.size_bytes, next_.source, next_.target, double(next_.size_bytes) });
			coflow->largest_bytes = std::max(coflow->largest_bytes, next_.size_bytes);
			has_next_ = reader_.read(&next_);
		} while (has_next_ && coflow->task && next_.task == coflow->task && next_.start_ps == coflow->start_ps);
		const bool is_let_in = large_ != Large::DEADLINES || varys_.may_begin(*coflow, active_, now_);
		if (!is_let_in) {
			for (const Flow &flow : coflow->flows)
				tell(*coflow, flow, -1);
			refused_++;
			return;
		}
		flows_ += coflow->flows.size();
		peak_ = std::max(peak_, flows_);
		active_.push_back(coflow.get());
		owned_.push_back(std::move(coflow));
	}

	void allocate()
	{
		allocations_++;
		std::copy(full_.rate.begin(), full_.rate.end(), left_.rate.begin());
		smalls_.clear();
		larges_.clear();
		for (Coflow *coflow : active_) {
			for (Flow &flow : coflow->flows)
				flow.rate = 0;
			(is_small(*coflow) ? smalls_ : larges_).push_back(coflow);
		}
		if (small_ == Small::FAIR)
			fair_.share(smalls_, left_);
		else
			one_by_one(smalls_, small_ == Small::SHORTEST);
		switch (large_) {
		case Large::FAIR:
			fair_.share(larges_, left_);
			break;
		case Large::FIFO:
		case Large::SHORTEST:
			one_by_one(larges_, large_ == Large::SHORTEST);
			break;
		case Large::VARYS:
			varys_.share(larges_, left_, fair_);
			break;
		case Large::DEADLINES:
			varys_.share_by_deadline(larges_, now_, left_, fair_);
			break;
		case Large::AALO:
			aalo_.demote(larges_, now_);
			aalo_.share(larges_, left_, fair_);
			break;
		}
	}

	bool is_small(const Coflow &coflow) const
	{
		return small_ != Small::NONE && qclimb_task_is_small(coflow.largest_bytes, small_bytes_);
	}

	/* By arrival, or by what is left. */
	void one_by_one(Coflows &coflows, bool is_shortest)
	{
		if (is_shortest) {
			keyed_.clear();
			for (Coflow *coflow : coflows)
				keyed_.push_back({ coflow->bytes_left(), coflow });
			std::stable_sort(keyed_.begin(), keyed_.end(),
					 [](const auto &a, const auto &b) { return a.first < b.first; });
			for (size_t i = 0; i < coflows.size(); i++)
				coflows[i] = keyed_[i].second;
		}
		for (Coflow *coflow : coflows)
			fair_.share(coflow, left_);
	}

	/* Seconds until rates are to be set anew. */
	double step() const
	{
		double soonest = has_next_ ? double(next_.start_ps) * 1e-12 - now_ : FOREVER, flow_ends = FOREVER;

		for (const Coflow *coflow : active_) {
			double first = FOREVER, last = 0;
			for (const Flow &flow : coflow->flows) {
				const double takes = flow.rate > 0 ? flow.left / flow.rate : FOREVER;
				first = std::min(first, takes);
				last = std::max(last, takes);
			}
			soonest = std::min(soonest, is_small(*coflow) ? first : last);
			flow_ends = std::min(flow_ends, first);
		}
		if (flow_ends_ >= 0)
			soonest = std::min(soonest, std::max(flow_ends, flow_ends_));
		if (large_ == Large::AALO)
			soonest = std::min(soonest, aalo_.next_change(larges_, now_));
		SIM_CHECK(soonest < FOREVER, "somebody is served");
		return soonest;
	}

	void advance(double takes)
	{
		const double at = now_ + takes;
		bool is_any_over = false;

		for (Coflow *coflow : active_) {
			std::vector<Flow> &flows = coflow->flows;
			double sent = 0; /* summed apart: a flow's part would be lost in the whole's rounding */
			for (size_t i = 0; i < flows.size();) {
				Flow &flow = flows[i];
				if (flow.rate > 0 && flow.left <= flow.rate * takes * (1 + 1e-12)) {
					sent += flow.left;
					tell(*coflow, flow, now_ + flow.left / flow.rate);
					flow = flows.back();
					flows.pop_back();
					flows_--;
					continue;
				}
				flow.left -= flow.rate * takes;
				sent += flow.rate * takes;
				i++;
			}
			coflow->sent += sent;
			is_any_over |= flows.empty();
		}
		/* To the moment of the arrival itself, which the sum may miss by a rounding. */
		now_ = has_next_ && at >= double(next_.start_ps) * 1e-12 * (1 - 1e-15) ? double(next_.start_ps) * 1e-12
										       : at;
		if (!is_any_over)
			return;
		const auto is_over = [](const auto &coflow) { return coflow->flows.empty(); };
		active_.erase(std::remove_if(active_.begin(), active_.end(), is_over), active_.end());
		owned_.erase(std::remove_if(owned_.begin(), owned_.end(), is_over), owned_.end());
	}

	void tell(const Coflow &coflow, const Flow &flow, double at)
	{
		FlowBase told;

		told.index = flow.index;
		told.start = coflow.start_ps;
		told.size_bytes = flow.size_bytes;
		told.received = told.acked = at < 0 ? -1 : Time(at * 1e12 + 0.5);
		writer_.write(told);
	}

	void finish()
	{
		rusage used = {};

		getrusage(RUSAGE_SELF, &used);
		const double cpu = double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
				   1e-6 * double(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
		writer_.close("{\"flows\":" + std::to_string(begun_) + ",\"coflows\":" + std::to_string(coflows_) +
			      ",\"refused\":" + std::to_string(refused_) + ",\"allocations\":" +
			      std::to_string(allocations_) + ",\"peak_flows\":" + std::to_string(peak_) +
			      ",\"peak_rss_kib\":" + std::to_string(peak_memory_kib()) +
			      ",\"cpu_seconds\":" + std::to_string(cpu) + "}");
	}

	const uint32_t hosts_;
	const double capacity_; /* bytes a second */
	const Small small_;
	const Large large_;
	const uint64_t small_bytes_;
	const double flow_ends_;
	Fair fair_;
	Varys varys_;
	Aalo aalo_;
	const Left full_;
	Left left_;
	FlowReader reader_;
	ResultWriter writer_;
	FlowRecord next_ = {};
	bool has_next_ = false;
	double now_ = 0;
	Coflows active_, smalls_, larges_; /* by arrival */
	std::vector<std::unique_ptr<Coflow>> owned_;
	std::vector<std::pair<double, Coflow *>> keyed_;
	uint64_t begun_ = 0, coflows_ = 0, refused_ = 0, allocations_ = 0, flows_ = 0, peak_ = 0;
};

static const Scheme COFLOW_SCHEME("coflow", run_as<Fluid>);

} // namespace sim::coflow

#endif
