/*
 * One port over time: what it sent in each step, of which flow, and the longest queue. Nothing, where none is watched.
 *
 * A packet counts in the step in which it begins to leave. Of flows the first MOST_FLOWS are told apart.
 */
#ifndef QCLIMB_SIM_WATCH_H
#define QCLIMB_SIM_WATCH_H

#include "core/config.h"

namespace sim
{

class Watch
{
      public:
	explicit Watch(const Config &config)
	    : port_(config.number("watched_port", -1, INT32_MAX)), step_(config.number("watch_step_ps", 1, MOST_PS))
	{
	}

	bool sees(uint64_t port) const
	{
		return port_ == int64_t(port);
	}
	bool is_on() const
	{
		return port_ >= 0;
	}

	void queued(Time now, uint64_t bytes)
	{
		for (const size_t end = step(now); last_ < end && last_ < MOST_STEPS; last_++)
			at(queue_, last_ + 1) = queued_; /* it lasted */
		uint64_t &most = at(queue_, step(now));
		most = std::max(most, bytes);
		queued_ = bytes;
	}

	void sent(Time now, uint64_t flow, uint32_t bytes)
	{
		at(sent_, step(now)) += bytes;
		if (flow >= MOST_FLOWS)
			return;
		if (flow >= of_flow_.size())
			of_flow_.resize(flow + 1);
		at(of_flow_[flow], step(now)) += bytes;
	}

	std::string json() const
	{
		std::string text =
			"{\"queue_bytes\":" + list(queue_) + ",\"sent_bytes\":" + list(sent_) + ",\"of_flow\":[";

		for (size_t i = 0; i < of_flow_.size(); i++)
			text += (i ? "," : "") + list(of_flow_[i]);
		return text + "]}";
	}

      private:
	static constexpr size_t MOST_STEPS = 100'000, MOST_FLOWS = 64;

	size_t step(Time now) const
	{
		return std::min(MOST_STEPS, size_t(now / step_));
	}
	static uint64_t &at(std::vector<uint64_t> &values, size_t step)
	{
		if (step >= values.size())
			values.resize(step + 1);
		return values[step];
	}
	static std::string list(const std::vector<uint64_t> &values)
	{
		std::string text = "[";

		for (size_t i = 0; i < values.size(); i++)
			text += (i ? "," : "") + std::to_string(values[i]);
		return text + "]";
	}

	const int64_t port_;
	const Time step_;
	std::vector<uint64_t> queue_, sent_;
	std::vector<std::vector<uint64_t>> of_flow_;
	size_t last_ = 0;
	uint64_t queued_ = 0;
};

} // namespace sim

#endif
