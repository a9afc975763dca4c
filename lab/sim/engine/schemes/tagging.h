/*
 * The priority of each packet: QCLIMB's Algorithm 1 by the text that hosts run (<qclimb/priority.h>), on different
 * bounds.
 *   none         every packet has priority 0 (plain TCP, DCTCP)
 *   pias         L = 0, S = 0, U unknown: by bytes sent
 *   qclimb       L, U of the flow's forecast, S
 *   qclimb-ps    L = U = the true size, S = 0: remaining bytes, perfectly known
 *   qclimb-pp    L = U = the forecast's one number, S = 0: the last priority once it is passed
 *   qclimb-fp    the priority of the forecast's one number, kept to the end
 *   qclimb-mixed as qclimb, but a flow of which nothing is known (L = 0, U unknown) as under pias
 *   task         0 while its task is small, else 1 (<qclimb/coflow.h>): the first threshold is the largest small flow's
 *   deadline     by the time that is left (<qclimb/deadline.h>); a flow without a deadline as under pias
 * A packet has the priority of its first byte. Offsets count the flow's bytes: a packet sent again is tagged as the
 * first time, or 0 if `again_first` (QCLIMB 3.2.3). ACKs have priority 0.
 */
#ifndef QCLIMB_SIM_SCHEMES_TAGGING_H
#define QCLIMB_SIM_SCHEMES_TAGGING_H

#include "core/config.h"
#include "core/packet.h"

#include <qclimb/coflow.h>
#include <qclimb/deadline.h>

namespace sim
{

class Tagging
{
	enum class Rule { NONE, PIAS, QCLIMB, PS, PP, FP, DEADLINE, TASK, MIXED };

      public:
	explicit Tagging(const Config &config)
	    : rule_(Rule(config.choice("tagging", { "none", "pias", "qclimb", "qclimb-ps", "qclimb-pp", "qclimb-fp",
						    "deadline", "task", "qclimb-mixed" }))),
	      priorities_(config.count("priorities", 1, QCLIMB_MAX_PRIORITIES)),
	      slack_(uint64_t(config.number("slack_bytes", 0, MOST_TIME))),
	      payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      step_us_(config.count("deadline_step_us", 1, 1'000'000'000))
	{
		const std::vector<uint64_t> begin = config.ascending("thresholds", priorities_ - 1);

		for (size_t i = 0; i < begin.size(); i++)
			threshold_[i + 1] = begin[i];
	}

	uint32_t priority(const FlowBase &flow, uint32_t packet, Time now) const
	{
		const uint64_t at = packet * payload_;
		qclimb_bounds bounds = { 0, QCLIMB_UNKNOWN_BYTES, 0 };

		switch (rule_) {
		case Rule::NONE:
			return 0;
		case Rule::PIAS:
			break;
		case Rule::QCLIMB:
			bounds = { flow.lower_bytes, flow.upper_bytes, slack_ };
			break;
		case Rule::MIXED:
			if (flow.lower_bytes || flow.upper_bytes != QCLIMB_UNKNOWN_BYTES)
				bounds = { flow.lower_bytes, flow.upper_bytes, slack_ };
			break;
		case Rule::PS:
			bounds = { flow.size_bytes, flow.size_bytes, 0 };
			break;
		case Rule::PP:
			bounds = { flow.forecast_bytes, flow.forecast_bytes, 0 };
			break;
		case Rule::FP:
			return qclimb_priority_of(threshold_, priorities_, flow.forecast_bytes);
		case Rule::TASK:
			return !qclimb_task_is_small(flow.task_largest_bytes, threshold_[1]);
		case Rule::DEADLINE:
			if (flow.due == NEVER)
				break;
			return qclimb_deadline_priority(step_us_, priorities_,
							flow.due > now ? uint64_t(flow.due - now) / 1'000'000 : 0);
		}
		return qclimb_priority(threshold_, priorities_, &bounds, at, at);
	}

      private:
	Rule rule_;
	uint32_t priorities_;
	uint64_t slack_, payload_;
	uint32_t step_us_;
	uint64_t threshold_[QCLIMB_MAX_PRIORITIES] = {};
};

} // namespace sim

#endif
