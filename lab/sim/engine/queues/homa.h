/*
 * Homa's ports. A switch's is strict.h's: priorities over one buffer. A host's own port is ordered by the message that
 * has least left to send (SRPT), of one message in order, control packets first: Homa's NIC queue is short and filled
 * in that order, which comes to the same. It counts what waits there of each flow: that is not late, and is not sent again.
 */
#ifndef QCLIMB_SIM_QUEUES_HOMA_H
#define QCLIMB_SIM_QUEUES_HOMA_H

#include "queues/pfabric.h"
#include "queues/strict.h"

namespace sim
{

class HomaQueue
{
      public:
	static constexpr bool RANKS_ARE_PRIORITIES = true;

	HomaQueue(const Config &config, Place place)
	    : is_host_(place == Place::HOST), host_(config, place), strict_(config, place)
	{
	}

	bool is_empty() const
	{
		return is_host_ ? host_.is_empty() : strict_.is_empty();
	}
	uint64_t bytes() const
	{
		return is_host_ ? host_.bytes() : strict_.bytes();
	}
	uint64_t counted_bytes() const
	{
		return is_host_ ? host_.counted_bytes() : strict_.counted_bytes();
	}
	Packet *push(Packet *packet)
	{
		if (!is_host_)
			return strict_.push(packet);
		packet->flow->at_host += packet->type == Type::DATA;
		return host_.push(packet);
	}
	Packet *pop()
	{
		if (!is_host_)
			return strict_.pop();
		Packet *packet = host_.pop();
		packet->flow->at_host -= packet->type == Type::DATA;
		return packet;
	}

	void fetch() const
	{
		is_host_ ? host_.fetch() : strict_.fetch();
	}

	void fetch_served() const
	{
		is_host_ ? host_.fetch_served() : strict_.fetch_served();
	}

      private:
	const bool is_host_;
	BasicRankQueue<PacketsLeft> host_;
	StrictQueue strict_;
};

} // namespace sim

#endif
