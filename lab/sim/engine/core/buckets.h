/*
 * One level of the event queue: buckets of events, in the order in which they were put in.
 *
 * A bucket is a row of chunks out of one store, the newest chunk first; an event is eight bytes there: where it is, and
 * its time within a bucket of the first level. Putting an event in writes to a chunk and reads none, reading a bucket
 * touches none of its events: on a large fabric these are in no near cache, and are fetched while others are dealt with.
 */
#ifndef QCLIMB_SIM_BUCKETS_H
#define QCLIMB_SIM_BUCKETS_H

#include "core/units.h"

#include <vector>

namespace sim
{

enum class Kind : uint8_t { PACKET, PORT, TIMER, ARRIVAL, NOTHING };

struct alignas(16) Event {
	Time time = 0;
	Event *next = nullptr; /* in a queue of a port; the calendar does not use it */
	Kind kind = Kind::NOTHING;
	bool is_scheduled = false;
};

/* An event, and the lowest bits of its time. Addresses have 48 bits, the last four of them zero. */
class Entry
{
      public:
	static constexpr int TIME_BITS = 20;

	Entry() = default;
	Entry(const Event *event, uint32_t time)
	    : word_(uint64_t(time) << (64 - TIME_BITS) | uint64_t(reinterpret_cast<uintptr_t>(event)) >> 4)
	{
		SIM_CHECK(this->event() == event, "an address has 48 bits");
	}
	Event *event() const
	{
		return reinterpret_cast<Event *>(uintptr_t(word_ << TIME_BITS >> (TIME_BITS - 4)));
	}
	uint32_t time() const
	{
		return uint32_t(word_ >> (64 - TIME_BITS));
	}

      private:
	uint64_t word_;
};

/* A row of chunks: 16 times the newest one's number, plus how many entries it has (1 to 15); 0: none. */
using Row = uint32_t;

struct alignas(128) Chunk {
	static constexpr uint32_t MOST = 15;
	Entry entry[MOST];
	Row older;
};

/* Chunks of all levels. The one that was given back last is the next one taken: it is the nearest. */
class Chunks
{
      public:
	Row take()
	{
		if (free_.empty()) {
			chunk_.emplace_back();
			return Row(chunk_.size() - 1) << 4;
		}
		const Row row = free_.back();
		free_.pop_back();
		return row;
	}
	void drop(Row row)
	{
		free_.push_back(row & ~15u);
	}
	Chunk &of(Row row)
	{
		return chunk_[row >> 4];
	}
	const Chunk &of(Row row) const
	{
		return chunk_[row >> 4];
	}

      private:
	std::vector<Chunk> chunk_;
	std::vector<Row> free_;
};

struct Buckets {
	static constexpr uint32_t NONE = UINT32_MAX;

	int shift = 0, end_shift = 0; /* bits of a time below a bucket, and below the whole level */

	void open(int at, int bits)
	{
		shift = at;
		end_shift = at + bits;
		mask_ = (1u << bits) - 1;
		row_.assign(size_t(1) << bits, 0);
		used_.assign((row_.size() + 63) / 64, 0);
		used_words_.assign((used_.size() + 63) / 64, 0);
	}

	uint32_t bucket_of(Time time) const
	{
		return static_cast<uint32_t>(time >> shift) & mask_;
	}

	void add(uint32_t at, Entry entry, Chunks &chunks)
	{
		Row row = row_[at];

		if ((row & 15) == (row ? Chunk::MOST : 0))
			row = longer(at, chunks);
		chunks.of(row).entry[row & 15] = entry;
		row_[at] = row + 1;
	}

	/* What `see` makes of each event of a bucket that stays, the oldest of a chunk first. */
	template <class See> void each(uint32_t at, const Chunks &chunks, See see) const
	{
		for (Row row = row_[at]; row;) {
			const Chunk &chunk = chunks.of(row);
			for (uint32_t i = 0; i < (row & 15); i++)
				see(*chunk.entry[i].event());
			row = chunk.older;
		}
	}

	/* Brings near what a bucket's first events are listed in. */
	void fetch(uint32_t at, const Chunks &chunks) const
	{
		const char *chunk = reinterpret_cast<const char *>(&chunks.of(row_[at]));

		__builtin_prefetch(chunk);
		__builtin_prefetch(chunk + 64);
	}

	uint32_t count(uint32_t at, const Chunks &chunks) const
	{
		uint32_t sum = 0;

		for (Row row = row_[at]; row; row = chunks.of(row).older)
			sum += row & 15;
		return sum;
	}

	/* Takes a bucket's events out: `put(i, entry)` for the i-th of `count` that were put in. */
	template <class Put> void empty(uint32_t at, uint32_t count, Chunks &chunks, Put put)
	{
		for (Row row = row_[at]; row;) {
			const Chunk &chunk = chunks.of(row);
			count -= row & 15;
			for (uint32_t i = 0; i < (row & 15); i++)
				put(count + i, chunk.entry[i]);
			chunks.drop(row);
			row = chunk.older;
		}
		row_[at] = 0;
		used_[at >> 6] &= ~(uint64_t(1) << (at & 63));
		if (!used_[at >> 6])
			used_words_[at >> 12] &= ~(uint64_t(1) << ((at >> 6) & 63));
	}

	/* The first bucket from `from` on that is not empty, or NONE. */
	uint32_t next_used(uint32_t from) const
	{
		if (from > mask_)
			return NONE;
		uint32_t word = from >> 6;
		const uint64_t here = used_[word] & (~uint64_t(0) << (from & 63));
		if (here)
			return (word << 6) | static_cast<uint32_t>(__builtin_ctzll(here));
		word++;
		for (size_t group = word >> 6; group < used_words_.size(); group++) {
			uint64_t words = used_words_[group];
			if (group == word >> 6)
				words &= ~uint64_t(0) << (word & 63);
			if (words) {
				const uint32_t at = static_cast<uint32_t>(group << 6) |
						    static_cast<uint32_t>(__builtin_ctzll(words));
				return (at << 6) | static_cast<uint32_t>(__builtin_ctzll(used_[at]));
			}
		}
		return NONE;
	}

      private:
	/* The bucket's row with an empty chunk in front. */
	__attribute__((noinline)) Row longer(uint32_t at, Chunks &chunks)
	{
		const Row row = chunks.take();

		chunks.of(row).older = row_[at];
		used_[at >> 6] |= uint64_t(1) << (at & 63);
		used_words_[at >> 12] |= uint64_t(1) << ((at >> 6) & 63);
		return row;
	}

	uint32_t mask_ = 0;
	std::vector<Row> row_;
	std::vector<uint64_t> used_, used_words_; /* a bit a bucket, a bit a word of these */
};

} // namespace sim

#endif
