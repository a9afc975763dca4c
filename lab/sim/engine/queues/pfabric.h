/*
 * pFabric's port (SIGCOMM'13, section 4.2). A packet's rank is the bytes that its flow had left when it was sent; ACKs
 * and probes have rank 0.
 *   Enqueue: the packet is put at the end; if the bytes then exceed the buffer, the packet of the largest rank is
 *   dropped (of equals, the last).
 *   Dequeue: the flow of the packet with the smallest rank (of equals, the first) is served: its *first* packet goes, so
 *   that no flow is reordered by its own falling rank. Rank 0 goes in order of arrival.
 * A buffer is two bandwidth-delay products, some 24 packets: an array that is searched is faster than any tree.
 */
#ifndef QCLIMB_SIM_QUEUES_PFABRIC_H
#define QCLIMB_SIM_QUEUES_PFABRIC_H

#include "core/topology.h"
#include "queues/fifo.h"

#include <cstring>

namespace sim
{

/* What a port orders by: 0 goes first and in order of arrival. */
struct Rank {
	static uint32_t of(const Packet &packet)
	{
		return packet.rank;
	}
};
struct PacketsLeft {
	static uint32_t of(const Packet &packet)
	{
		return static_cast<const WidePacket &>(packet).left;
	}
};

template <class Key> class BasicRankQueue
{
      public:
	static constexpr bool RANKS_ARE_PRIORITIES = false;

	BasicRankQueue(const Config &config, Place place)
	    : limit_bytes_(uint64_t(config.number(place == Place::HOST ? "host_buffer_bytes" : "buffer_bytes")))
	{
		grow();
	}

	bool is_empty() const
	{
		return !count_ && control_.is_empty();
	}
	uint64_t bytes() const
	{
		return bytes_;
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = control_.counted_bytes();

		for (uint32_t i = 0; i < count_; i++)
			sum += packet_[i]->wire_bytes;
		return sum;
	}

	/* Returns the packet that has no place: this one, another, or none. */
	Packet *push(Packet *packet)
	{
		bytes_ += packet->wire_bytes;
		const uint32_t key = Key::of(*packet);
		if (key == 0) {
			control_.push(packet);
		} else {
			if (count_ == rank_.size())
				grow();
			rank_[count_] = key;
			flow_[count_] = packet->flow;
			packet_[count_++] = packet;
		}
		if (bytes_ <= limit_bytes_)
			return nullptr;
		return count_ ? take(worst()) : drop_control();
	}

	Packet *pop()
	{
		if (!control_.is_empty()) {
			Packet *packet = control_.pop();
			bytes_ -= packet->wire_bytes;
			return packet;
		}
		const uint32_t *rank = rank_.data();
		uint32_t best = 0, least = rank[0];
		for (uint32_t i = 1; i < count_; i++) {
			best = rank[i] < least ? i : best;
			least = rank[i] < least ? rank[i] : least;
		}
		const FlowBase *flow = flow_[best];
		uint32_t first = 0;
		while (flow_[first] != flow)
			first++;
		return take(first);
	}

      private:
	uint32_t worst() const
	{
		const uint32_t *rank = rank_.data();
		uint32_t found = 0, most = rank[0];

		for (uint32_t i = 1; i < count_; i++) {
			found = rank[i] >= most ? i : found;
			most = rank[i] >= most ? rank[i] : most;
		}
		return found;
	}

	Packet *take(uint32_t at)
	{
		Packet *packet = packet_[at];
		const uint32_t behind = --count_ - at;

		std::memmove(&rank_[at], &rank_[at + 1], behind * sizeof(rank_[0]));
		std::memmove(&flow_[at], &flow_[at + 1], behind * sizeof(flow_[0]));
		std::memmove(&packet_[at], &packet_[at + 1], behind * sizeof(packet_[0]));
		bytes_ -= packet->wire_bytes;
		return packet;
	}

	Packet *drop_control()
	{
		Packet *packet = control_.pop_last();

		bytes_ -= packet->wire_bytes;
		return packet;
	}

	void grow()
	{
		const size_t size = rank_.empty() ? 31 : 2 * rank_.size() + 1;

		rank_.resize(size);
		flow_.resize(size);
		packet_.resize(size);
	}

	const uint64_t limit_bytes_;
	uint64_t bytes_ = 0;
	uint32_t count_ = 0;
	std::vector<uint32_t> rank_; /* of the packets with a rank above 0, in order of arrival */
	std::vector<const FlowBase *> flow_;
	std::vector<Packet *> packet_;
	Fifo control_;
};

using PfabricQueue = BasicRankQueue<Rank>;

} // namespace sim

#endif
