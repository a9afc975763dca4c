/*
 * What PDQ's switches put flows in order by, as the sender states it: a deadline first, then a number (the comparators
 * of SIGCOMM'12, sections 3.3, 5.6 and 7). Smaller goes first; who came first breaks ties.
 *
 *   size      the deadline, then what is left to send (the paper's: EDF, then SJF)
 *   shortest  what is left, whatever the deadline (SJF)
 *   earliest  the deadline alone (EDF)
 *   random    a number drawn once, behind deadlines
 *   sent      what was sent, in steps of 50 KB, behind deadlines: sizes are not known
 * Aging: the number is divided by 2^(rate t), t being how long the flow has been paused in units of 100 ms, so that
 * nobody starves. The paper says "gradually increase the criticality of a flow based on its waiting time"; the rule is
 * ours. Between powers of two the divisor is reckoned along a straight line: no float.
 */
#ifndef QCLIMB_SIM_SCHEMES_CRITICALITY_H
#define QCLIMB_SIM_SCHEMES_CRITICALITY_H

#include "core/config.h"

namespace sim
{

class Criticality
{
      public:
	explicit Criticality(const Config &config)
	    : by_(By(config.choice("criticality", { "size", "random", "sent", "shortest", "earliest" }))),
	      aging_tenths_(config.count("aging_tenths", 0, 1000)), seed_(uint64_t(config.number("seed", 0, INT64_MAX)))
	{
	}

	Time due(Time deadline) const
	{
		return by_ == By::SHORTEST ? NEVER : deadline;
	}

	/* `left`, `sent`: times at the sender's full rate, the second of whole steps. */
	Time number(uint64_t flow, Time left, Time sent, Time paused) const
	{
		switch (by_) {
		case By::RANDOM:
			return aged(Time(mix(flow, seed_) >> 2), paused);
		case By::SENT:
			return aged(sent, paused);
		case By::EARLIEST:
			return 0;
		default:
			return aged(left, paused);
		}
	}

	bool goes_by_sent() const
	{
		return by_ == By::SENT;
	}

	static constexpr uint64_t STEP_BYTES = 50'000; /* of what was sent, before criticality changes */

      private:
	enum class By { SIZE, RANDOM, SENT, SHORTEST, EARLIEST };
	static constexpr Time UNIT = 100'000'000'000; /* 100 ms */

	Time aged(Time number, Time paused) const
	{
		if (!aging_tenths_)
			return number;
		const uint64_t halvings = uint64_t(static_cast<unsigned __int128>(paused) * aging_tenths_ * 1024 /
						   (10 * static_cast<unsigned __int128>(UNIT))); /* in 1024ths */
		if (halvings / 1024 >= 62)
			return 0;
		return Time(static_cast<unsigned __int128>(number) * (2048 - halvings % 1024) / 2048) >>
		       (halvings / 1024);
	}

	const By by_;
	const uint64_t aging_tenths_, seed_;
};

} // namespace sim

#endif
