/*
 * Flows in from stdin, results out to stdout, both as fixed little-endian records (lab/sim/wire.py has the same two
 * layouts), so that a run holds no flow that has not begun and none that is over.
 */
#ifndef QCLIMB_SIM_STREAM_H
#define QCLIMB_SIM_STREAM_H

#include "core/config.h"
#include "core/packet.h"

namespace sim
{

struct FlowRecord {
	int64_t start_ps;
	uint64_t size_bytes, lower_bytes, upper_bytes, forecast_bytes;
	int64_t deadline_ps; /* when the last byte is wanted; 0: whenever it comes */
	uint64_t task, task_largest_bytes; /* whose flow it is (0: its own), and the task's largest flow */
	uint32_t source, target;
	uint64_t group; /* whose weight it shares, from 0 (queues/groups.h) */
};
static_assert(sizeof(FlowRecord) == 80, "as in wire.py");

struct ResultRecord {
	uint64_t index;
	int64_t start_ps, received_ps, acked_ps; /* -1: not by the end of the run */
	uint64_t size_bytes;
	uint32_t sent, drops, timeouts, duplicates;
};
static_assert(sizeof(ResultRecord) == 56, "as in wire.py");

class FlowReader
{
      public:
	explicit FlowReader(uint32_t hosts) : hosts_(hosts), buffer_(4096)
	{
	}

	/* False at the end. */
	bool read(FlowRecord *record)
	{
		if (at_ == count_ && !fill())
			return false;
		*record = buffer_[at_++];
		check(*record);
		last_ = record->start_ps;
		number_++;
		return true;
	}

      private:
	bool fill()
	{
		const size_t room = buffer_.size() * sizeof(FlowRecord);
		const size_t bytes = std::fread(buffer_.data(), 1, room, stdin);

		at_ = 0;
		count_ = bytes / sizeof(FlowRecord);
		if (bytes % sizeof(FlowRecord)) {
			number_ += count_;
			wrong("the list ends after " + std::to_string(bytes % sizeof(FlowRecord)) + " bytes of it",
			      std::to_string(sizeof(FlowRecord)));
		}
		return count_;
	}

	void check(const FlowRecord &flow) const
	{
		if (flow.source >= hosts_)
			wrong("source is " + std::to_string(flow.source), "a host, 0 to " + std::to_string(hosts_ - 1));
		if (flow.target >= hosts_ || flow.target == flow.source)
			wrong("target is " + std::to_string(flow.target),
			      "a host, 0 to " + std::to_string(hosts_ - 1) + ", and not its source");
		if (flow.start_ps < last_ || flow.start_ps > MOST_TIME)
			wrong("start_ps is " + std::to_string(flow.start_ps),
			      "at least the start ahead of it, " + std::to_string(last_) + ", and at most 2^62");
		if (!flow.size_bytes)
			wrong("size_bytes is 0", "1 or more");
		if (flow.lower_bytes > flow.upper_bytes)
			wrong("lower_bytes is " + std::to_string(flow.lower_bytes),
			      "at most upper_bytes, " + std::to_string(flow.upper_bytes));
		if (flow.deadline_ps && (flow.deadline_ps <= flow.start_ps || flow.deadline_ps > MOST_TIME))
			wrong("deadline_ps is " + std::to_string(flow.deadline_ps),
			      "0 (none), or more than start_ps, " + std::to_string(flow.start_ps) +
				      ", and at most 2^62");
	}

	[[noreturn]] void wrong(const std::string &what, const std::string &expected) const
	{
		refuse("flow " + std::to_string(number_) + ": " + what + ", expected " + expected);
	}

	uint32_t hosts_;
	std::vector<FlowRecord> buffer_;
	size_t at_ = 0, count_ = 0;
	uint64_t number_ = 0;
	Time last_ = 0;
};

class ResultWriter
{
      public:
	ResultWriter()
	{
		buffer_.reserve(4096);
	}

	void write(const FlowBase &flow)
	{
		buffer_.push_back({ flow.index, flow.start, flow.received, flow.acked, flow.size_bytes, flow.sent,
				    flow.drops, flow.timeouts, flow.duplicates });
		if (buffer_.size() == buffer_.capacity())
			flush();
	}

	/* The last record's index is all ones; its start is the length of the text that follows. */
	void close(const std::string &text)
	{
		buffer_.push_back({ UINT64_MAX, int64_t(text.size()), 0, 0, 0, 0, 0, 0, 0 });
		flush();
		std::fwrite(text.data(), 1, text.size(), stdout);
		std::fflush(stdout);
	}

      private:
	void flush()
	{
		if (std::fwrite(buffer_.data(), sizeof(ResultRecord), buffer_.size(), stdout) != buffer_.size())
			std::exit(1); /* whoever read is gone */
		buffer_.clear();
	}

	std::vector<ResultRecord> buffer_;
};

} // namespace sim

#endif
