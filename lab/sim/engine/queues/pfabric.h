/*
 * pFabric's port (SIGCOMM'13, section 4.2). A packet's rank is the bytes that its flow had left when it was sent; ACKs
 * and probes have rank 0.
 *   Enqueue: the packet is put at the end; if the bytes then exceed the buffer, the packet of the largest rank is
 *   dropped (of equals, the last).
 *   Dequeue: the flow of the packet with the smallest rank (of equals, the first) is served: its *first* packet goes, so
 *   that no flow is reordered by its own falling rank. Rank 0 goes in order of arrival.
 * A buffer is two bandwidth-delay products, some 24 packets: an array that is searched is faster than any tree. A port
 * that holds more than `SHALLOW` packets (Homa's hosts, large buffers) keeps them in trees until it is empty.
 */
#ifndef QCLIMB_SIM_QUEUES_PFABRIC_H
#define QCLIMB_SIM_QUEUES_PFABRIC_H

#include "core/topology.h"
#include "queues/fifo.h"

#include <cstring>
#include <functional>
#include <memory>
#include <set>

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

/* Many packets with ranks above 0: by rank, and by flow, each in order of arrival. */
class DeepRanks
{
      public:
	bool is_empty() const
	{
		return by_rank_.empty();
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = 0;

		for (const One &one : by_rank_)
			sum += one.packet->wire_bytes;
		return sum;
	}

	void push(uint32_t rank, Packet *packet)
	{
		const One one = { rank, arrivals_++, packet->flow, packet };

		by_rank_.insert(one);
		by_flow_.insert(one);
	}

	/* The first packet of the flow whose packet has the smallest rank. */
	Packet *take_next()
	{
		return take(*by_flow_.lower_bound({ 0, 0, by_rank_.begin()->flow, nullptr }));
	}

	/* The packet of the largest rank, of equals the last. */
	Packet *take_worst()
	{
		return take(*by_rank_.rbegin());
	}

      private:
	struct One {
		uint32_t rank;
		uint64_t arrival;
		const FlowBase *flow;
		Packet *packet;
	};
	struct ByRank {
		bool operator()(const One &a, const One &b) const
		{
			return a.rank != b.rank ? a.rank < b.rank : a.arrival < b.arrival;
		}
	};
	struct ByFlow {
		bool operator()(const One &a, const One &b) const
		{
			return a.flow != b.flow ? std::less<>()(a.flow, b.flow) : a.arrival < b.arrival;
		}
	};

	Packet *take(One one)
	{
		by_rank_.erase(one);
		by_flow_.erase(one);
		return one.packet;
	}

	uint64_t arrivals_ = 0;
	std::set<One, ByRank> by_rank_;
	std::set<One, ByFlow> by_flow_;
};

template <class Key> class BasicRankQueue
{
      public:
	static constexpr bool RANKS_ARE_PRIORITIES = false;

	BasicRankQueue(const Config &config, Place place)
	    : limit_bytes_(config.bytes(place == Place::HOST ? "host_buffer_bytes" : "buffer_bytes"))
	{
		grow();
	}

	bool is_empty() const
	{
		return !count_ && !deep_ && control_.is_empty();
	}
	uint64_t bytes() const
	{
		return bytes_;
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = control_.counted_bytes() + (deep_ ? deep_->counted_bytes() : 0);

		for (uint32_t i = 0; i < count_; i++)
			sum += waiting()[i].packet->wire_bytes;
		return sum;
	}

	/* Returns the packet that has no place: this one, another, or none. */
	Packet *push(Packet *packet)
	{
		bytes_ += packet->wire_bytes;
		const uint32_t key = Key::of(*packet);
		if (key == 0) {
			control_.push(packet);
		} else if (deep_ || count_ == SHALLOW) {
			deepen();
			deep_->push(key, packet);
		} else {
			if (count_ == room_)
				grow();
			rank()[count_] = key;
			waiting()[count_++] = { packet, packet->flow };
		}
		if (bytes_ <= limit_bytes_)
			return nullptr;
		if (deep_)
			return take_deep(&DeepRanks::take_worst);
		return count_ ? take(worst()) : gone(control_.pop_last());
	}

	Packet *pop()
	{
		if (!control_.is_empty())
			return gone(control_.pop());
		if (deep_)
			return take_deep(&DeepRanks::take_next);
		const uint32_t *ranks = rank();
		uint32_t best = 0, least = ranks[0];
		for (uint32_t i = 1; i < count_; i++) {
			best = ranks[i] < least ? i : best;
			least = ranks[i] < least ? ranks[i] : least;
		}
		const Waiting *of = waiting();
		const FlowBase *flow = of[best].flow;
		uint32_t first = 0;
		while (of[first].flow != flow)
			first++;
		return take(first);
	}

	/* Brings near what pop() looks at, once the queue itself is. */
	void fetch() const
	{
		__builtin_prefetch(line_.get());
		__builtin_prefetch(waiting());
	}
	void fetch_served() const
	{
		control_.fetch();
	}

      private:
	uint32_t worst() const
	{
		const uint32_t *ranks = rank();
		uint32_t found = 0, most = ranks[0];

		for (uint32_t i = 1; i < count_; i++) {
			found = ranks[i] >= most ? i : found;
			most = ranks[i] >= most ? ranks[i] : most;
		}
		return found;
	}

	Packet *take(uint32_t at)
	{
		Packet *packet = waiting()[at].packet;
		const uint32_t behind = --count_ - at;

		std::memmove(rank() + at, rank() + at + 1, behind * sizeof(uint32_t));
		std::memmove(waiting() + at, waiting() + at + 1, behind * sizeof(Waiting));
		return gone(packet);
	}

	Packet *gone(Packet *packet)
	{
		bytes_ -= packet->wire_bytes;
		return packet;
	}

	/* What waits in the array moves to the trees. */
	void deepen()
	{
		if (!deep_)
			deep_ = std::make_unique<DeepRanks>();
		for (uint32_t i = 0; i < count_; i++)
			deep_->push(rank()[i], waiting()[i].packet);
		count_ = 0;
	}

	Packet *take_deep(Packet *(DeepRanks::*which)())
	{
		Packet *packet = ((*deep_).*which)();

		if (deep_->is_empty())
			deep_.reset();
		return gone(packet);
	}

	/* In one piece of memory, ranks apart: they are what is searched. */
	struct alignas(64) Line {
		unsigned char bytes[64];
	};
	struct Waiting {
		Packet *packet;
		const FlowBase *flow;
	};
	static constexpr uint32_t FIRST_ROOM = 16; /* a line of ranks */
	static constexpr uint32_t SHALLOW = 512; /* packets; from here on trees are faster */

	uint32_t *rank() const
	{
		return reinterpret_cast<uint32_t *>(line_.get());
	}
	Waiting *waiting() const
	{
		return reinterpret_cast<Waiting *>(line_.get() + room_ / FIRST_ROOM);
	}

	void grow()
	{
		const std::unique_ptr<Line[]> old = std::move(line_);
		const Line *were = old.get() + room_ / FIRST_ROOM;

		room_ = room_ ? 2 * room_ : FIRST_ROOM;
		line_.reset(new Line[room_ / FIRST_ROOM * (1 + sizeof(Waiting) / sizeof(uint32_t))]);
		if (!count_)
			return;
		std::memcpy(rank(), old.get(), count_ * sizeof(uint32_t));
		std::memcpy(waiting(), were, count_ * sizeof(Waiting));
	}

	/* Of the packets with a rank above 0, in order of arrival; none while the trees have some. */
	uint32_t count_ = 0, room_ = 0;
	std::unique_ptr<Line[]> line_;
	uint64_t bytes_ = 0;
	const uint64_t limit_bytes_;
	Fifo control_;
	std::unique_ptr<DeepRanks> deep_; /* while it has packets */
};

using PfabricQueue = BasicRankQueue<Rank>;

} // namespace sim

#endif
