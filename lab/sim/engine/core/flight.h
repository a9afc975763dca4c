/*
 * Which packets of a flow are on their way, in the order in which they left, and when: a ring, as long as they were many.
 */
#ifndef QCLIMB_SIM_FLIGHT_H
#define QCLIMB_SIM_FLIGHT_H

#include "core/units.h"

#include <memory>

namespace sim
{

class Flight
{
      public:
	struct Sent {
		Time at;
		uint32_t seq;
	};

	bool empty() const
	{
		return first_ == end_;
	}

	const Sent &oldest() const
	{
		return ring_[first_ & (room_ - 1)];
	}

	void pop()
	{
		first_++;
	}

	void push(uint32_t seq, Time at)
	{
		if (end_ - first_ == room_)
			widen();
		ring_[end_++ & (room_ - 1)] = { at, seq };
	}

      private:
	void widen()
	{
		const uint32_t wider = room_ ? 2 * room_ : 8;
		std::unique_ptr<Sent[]> ring(new Sent[wider]);

		for (uint32_t i = first_; i != end_; i++)
			ring[i & (wider - 1)] = ring_[i & (room_ - 1)];
		ring_ = std::move(ring);
		room_ = wider;
	}

	uint32_t first_ = 0, end_ = 0, room_ = 0; /* the first two only grow; `room_` is a power of two, or 0 */
	std::unique_ptr<Sent[]> ring_;
};

} // namespace sim

#endif
