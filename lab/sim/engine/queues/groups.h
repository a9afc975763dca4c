/*
 * pFabric within weighted groups of flows (SIGCOMM'13, section 7): groups share a port by their weights, and within each
 * the flow with the least left goes first and the one with the most is dropped.
 *
 * Deficit round robin between groups: one that has its turn gets `weight` quanta of bytes, and sends while it has any
 * left; what it overdraws counts against its next turn. An empty group's credit and debt are forgotten. So a group that
 * is not busy leaves its share to the others. A group has a pFabric buffer of its own: no group's packets push out
 * another's.
 * ACKs and probes (rank 0) go ahead of all groups, in order of arrival.
 */
#ifndef QCLIMB_SIM_QUEUES_GROUPS_H
#define QCLIMB_SIM_QUEUES_GROUPS_H

#include "queues/pfabric.h"

namespace sim
{

constexpr int64_t MOST_WEIGHT = 1000;

class GroupedRanks
{
      public:
	static constexpr bool RANKS_ARE_PRIORITIES = false;

	GroupedRanks(const Config &config, Place place)
	{
		for (const uint64_t weight : config.numbers("group_weights", MOST_WEIGHT)) {
			if (!weight)
				refuse("group_weights[" + std::to_string(groups_.size()) + "] is 0, expected 1 to " +
				       std::to_string(MOST_WEIGHT));
			groups_.emplace_back(int64_t(weight), config, place);
		}
	}

	bool is_empty() const
	{
		return bytes() == 0;
	}

	uint64_t bytes() const
	{
		return control_bytes_ + group_bytes_;
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = control_.counted_bytes();

		for (const Group &group : groups_)
			sum += group.queue.counted_bytes();
		return sum;
	}

	/* Returns the packet of its group that has no place, or null. */
	Packet *push(Packet *packet)
	{
		if (packet->rank == 0) {
			control_bytes_ += packet->wire_bytes;
			control_.push(packet);
			return nullptr;
		}
		group_bytes_ += packet->wire_bytes;
		Packet *lost = groups_[packet->flow->group].queue.push(packet);
		group_bytes_ -= lost ? lost->wire_bytes : 0;
		return lost;
	}

	Packet *pop()
	{
		if (!control_.is_empty()) {
			Packet *packet = control_.pop();
			control_bytes_ -= packet->wire_bytes;
			return packet;
		}
		while (groups_[turn_].queue.is_empty() || groups_[turn_].credit <= 0)
			next();
		Group &group = groups_[turn_];
		Packet *packet = group.queue.pop();
		group.credit -= packet->wire_bytes;
		group_bytes_ -= packet->wire_bytes;
		return packet;
	}

	void fetch() const
	{
		__builtin_prefetch(groups_.data());
	}
	void fetch_served() const
	{
		control_.fetch();
	}

      private:
	static constexpr int64_t QUANTUM_BYTES = 1500;

	struct Group {
		int64_t weight, credit = 0; /* bytes that it may send before its turn is over */
		PfabricQueue queue;

		Group(int64_t its, const Config &config, Place place) : weight(its), queue(config, place)
		{
		}
	};

	void next()
	{
		if (groups_[turn_].queue.is_empty())
			groups_[turn_].credit = 0;
		turn_ = (turn_ + 1) % groups_.size();
		groups_[turn_].credit += groups_[turn_].weight * QUANTUM_BYTES;
	}

	std::vector<Group> groups_;
	size_t turn_ = 0;
	uint64_t control_bytes_ = 0, group_bytes_ = 0;
	Fifo control_;
};

} // namespace sim

#endif
