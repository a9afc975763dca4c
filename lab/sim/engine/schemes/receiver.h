/*
 * What a receiver adds to TCP: the window that its ACKs carry, and when they go. A sender has no more packets out than
 * its congestion window and the receiver's allow. Knows nothing of sockets; a receiver is told of a flow at its start.
 *
 * KernelReceiver adds nothing, and costs nothing: each packet is acknowledged at once, the window is never in the way.
 * Others keep what they know by host, and ask for the clock: tick() says when it wants to be called again.
 */
#ifndef QCLIMB_SIM_SCHEMES_RECEIVER_H
#define QCLIMB_SIM_SCHEMES_RECEIVER_H

#include "core/topology.h"

namespace sim
{

constexpr uint32_t NO_WINDOW = UINT32_MAX; /* the receiver's is not in the way */

/* What every receiver that advertises a window keeps with a flow. */
struct Received {
	uint32_t allowed = NO_WINDOW; /* packets, by the last ACK that came; the sender's */
	bool is_clock = false; /* no flow, but a host's clock */
};

struct KernelReceiver {
	static constexpr bool ADVERTISES = false;

	struct State {
	};

	KernelReceiver(const Config &, uint32_t)
	{
	}
};

/* A rate over intervals: half of each new one, half of what was; the first one whole. */
class Rate
{
      public:
	void add(uint64_t bytes)
	{
		bytes_ += bytes;
	}
	void close(Time interval)
	{
		const uint64_t now = uint64_t(double(bytes_) / double(interval) * 1e12);

		value_ = is_known_ ? (value_ + now) / 2 : now;
		is_known_ = true;
		bytes_ = 0;
	}
	void clear()
	{
		value_ = bytes_ = 0;
		is_known_ = false;
	}
	uint64_t value() const /* bytes a second */
	{
		return value_;
	}

      private:
	uint64_t bytes_ = 0, value_ = 0;
	bool is_known_ = false;
};

} // namespace sim

#endif
