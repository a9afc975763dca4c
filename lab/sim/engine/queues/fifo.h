/*
 * Packets in order of arrival, linked by themselves.
 */
#ifndef QCLIMB_SIM_QUEUES_FIFO_H
#define QCLIMB_SIM_QUEUES_FIFO_H

#include "core/packet.h"

namespace sim
{

class Fifo
{
      public:
	bool is_empty() const
	{
		return !first_;
	}

	void push(Packet *packet)
	{
		packet->next = nullptr;
		if (first_)
			last_->next = packet;
		else
			first_ = packet;
		last_ = packet;
	}

	Packet *pop()
	{
		Packet *packet = first_;

		first_ = static_cast<Packet *>(packet->next);
		return packet;
	}

	/* Brings near who is next. */
	void fetch() const
	{
		__builtin_prefetch(first_);
	}

	/* The packet that came last; walks the queue. */
	Packet *pop_last()
	{
		Packet *packet = last_, *before = nullptr;

		for (Packet *p = first_; p != packet; p = static_cast<Packet *>(p->next))
			before = p;
		if (before)
			before->next = nullptr;
		else
			first_ = nullptr;
		last_ = before;
		return packet;
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = 0;

		for (const Event *p = first_; p; p = p->next)
			sum += static_cast<const Packet *>(p)->wire_bytes;
		return sum;
	}

      private:
	Packet *first_ = nullptr, *last_ = nullptr;
};

} // namespace sim

#endif
