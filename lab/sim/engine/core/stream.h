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
	uint32_t source, target;
};
static_assert(sizeof(FlowRecord) == 48, "as in wire.py");

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
		if (at_ == count_) {
			count_ = std::fread(buffer_.data(), sizeof(FlowRecord), buffer_.size(), stdin);
			at_ = 0;
			if (!count_)
				return false;
		}
		*record = buffer_[at_++];
		if (record->source >= hosts_ || record->target >= hosts_ || record->source == record->target)
			refuse("flow " + std::to_string(number_) + ": source and target must be two of " +
			       std::to_string(hosts_) + " hosts");
		if (record->start_ps < last_)
			refuse("flow " + std::to_string(number_) + ": starts before the one ahead of it");
		if (!record->size_bytes)
			refuse("flow " + std::to_string(number_) + ": has no bytes");
		last_ = record->start_ps;
		number_++;
		return true;
	}

      private:
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
