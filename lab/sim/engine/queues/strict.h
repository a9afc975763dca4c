/*
 * A commodity port: up to 64 first-in-first-out queues, served in strict order of priority (0 first), over one buffer.
 *
 *   Admission. Each queue has `reserved_bytes` of its own; what is beyond is taken from the port's shared rest
 *   (buffer - queues x reserved). A packet that finds neither is dropped (tail drop: no packet that was let in is ever
 *   dropped). With `dynamic_alpha_256ths` = a > 0 a queue may also hold no more than a/256 of the free shared bytes
 *   (dynamic thresholds of Choudhury and Hahne, as ASICs have them); one number for all queues, or one for each.
 *   Marking. A data packet that finds `mark_bytes` or more in the port (or in its queue, if `mark_per_queue`) is marked:
 *   DCTCP's instantaneous threshold. 0 marks nothing.
 *   Queues. One a priority; in a Big-Spine of K spines priorities K q to K q + K - 1 share queue q of every port (on the
 *   uplinks each of them has a spine of its own).
 * The packet on the wire is no longer in the queue. Invariant (SIM_CHECKS): whoever is served, no queue before is waiting.
 */
#ifndef QCLIMB_SIM_QUEUES_STRICT_H
#define QCLIMB_SIM_QUEUES_STRICT_H

#include "core/few.h"
#include "core/topology.h"
#include "queues/fifo.h"

namespace sim
{

class StrictQueue
{
      public:
	static constexpr bool RANKS_ARE_PRIORITIES = true;
	static constexpr int64_t MOST_ALPHA = 256 * 256; /* SONiC's largest dynamic_th, 8 */

	StrictQueue(const Config &config, Place place)
	    : row_(config.text("routing") == "priority" ? config.count("spines", 1, MOST_HOSTS) : 1),
	      count_((config.count("priorities", 1, 64) - 1) / row_ + 1), reserved_(config.bytes("reserved_bytes")),
	      mark_bytes_(marks(config, place)), mark_per_queue_(config.flag("mark_per_queue"))
	{
		const std::vector<uint64_t> alpha = config.numbers("dynamic_alpha_256ths", MOST_ALPHA);
		const uint64_t buffer = config.bytes(place == Place::HOST ? "host_buffer_bytes" : "buffer_bytes");

		shared_ = buffer > count_ * reserved_ ? buffer - count_ * reserved_ : 0;
		if (alpha.size() != 1 && alpha.size() != count_)
			refuse("dynamic_alpha_256ths has " + std::to_string(alpha.size()) + " numbers, expected 1 or " +
			       std::to_string(count_) + ", one for each queue");
		for (uint32_t i = 0; i < count_; i++)
			queue_.insert(i, { Fifo(), 0, alpha[alpha.size() == 1 ? 0 : i] });
	}

	bool is_empty() const
	{
		return !waiting_;
	}
	uint64_t bytes() const
	{
		return bytes_;
	}

	uint64_t counted_bytes() const
	{
		uint64_t sum = 0;

		for (const One &one : queue_)
			sum += one.fifo.counted_bytes();
		return sum;
	}

	/* Returns the packet if it has no place. */
	Packet *push(Packet *packet)
	{
		const uint32_t row = packet->rank / row_, p = row < count_ ? row : count_ - 1;
		One &queue = queue_[p];
		const uint64_t after = queue.bytes + packet->wire_bytes;

		if (after > reserved_) {
			const uint64_t own = over(queue.bytes), more = over(after) - own;
			if (shared_used_ + more > shared_)
				return packet;
			if (queue.alpha && 256 * (own + more) > queue.alpha * (shared_ - shared_used_))
				return packet;
			shared_used_ += more;
		}
		if (mark_bytes_ && packet->type == Type::DATA &&
		    (mark_per_queue_ ? queue.bytes : bytes_) >= mark_bytes_)
			packet->is_marked = true;
		queue.bytes = after;
		bytes_ += packet->wire_bytes;
		queue.fifo.push(packet);
		waiting_ |= uint64_t(1) << p;
		return nullptr;
	}

	Packet *pop()
	{
		const uint32_t p = uint32_t(__builtin_ctzll(waiting_));
		One &queue = queue_[p];
		Packet *packet = queue.fifo.pop();

#ifdef SIM_CHECKS
		for (uint32_t before = 0; before < p; before++)
			SIM_CHECK(queue_[before].fifo.is_empty(), "no priority is passed over");
		SIM_CHECK(queue.bytes >= packet->wire_bytes, "no queue is negative");
#endif
		shared_used_ -= over(queue.bytes) - over(queue.bytes - packet->wire_bytes);
		queue.bytes -= packet->wire_bytes;
		bytes_ -= packet->wire_bytes;
		if (queue.fifo.is_empty())
			waiting_ &= ~(uint64_t(1) << p);
		return packet;
	}

	/* Brings near what pop() looks at, once the queue itself is. */
	void fetch() const
	{
		__builtin_prefetch(queue_.begin());
	}
	void fetch_served() const
	{
		queue_[uint32_t(__builtin_ctzll(waiting_))].fifo.fetch();
	}

      private:
	struct One {
		Fifo fifo;
		uint64_t bytes;
		uint64_t alpha; /* 256ths of the free shared bytes; 0: all of them */
	};

	static uint64_t marks(const Config &config, Place place)
	{
		const uint64_t host = config.bytes("host_mark_bytes"), leaf = config.bytes("mark_bytes");
		const uint64_t uplink = config.bytes("uplink_mark_bytes");

		return place == Place::HOST ? host : place == Place::LEAF_DOWN ? leaf : uplink;
	}

	uint64_t over(uint64_t bytes) const
	{
		return bytes > reserved_ ? bytes - reserved_ : 0;
	}

	const uint32_t row_; /* priorities of one queue: a Big-Spine has one a spine */
	const uint32_t count_;
	const uint64_t reserved_, mark_bytes_;
	const bool mark_per_queue_;
	uint64_t shared_ = 0, shared_used_ = 0; /* bytes beyond the reserves: to have, in use */
	uint64_t bytes_ = 0;
	uint64_t waiting_ = 0; /* a bit a queue that is not empty */
	Few<One, 1> queue_;
};

} // namespace sim

#endif
