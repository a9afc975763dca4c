/*
 * Which of a flow's packets are in a set (arrived, acknowledged, lost), from a first one that moves on: a ring of bits,
 * as long as the window was at its widest. All packets before `first()` have left the set.
 */
#ifndef QCLIMB_SIM_WINDOW_H
#define QCLIMB_SIM_WINDOW_H

#include "core/units.h"

#include <memory>

namespace sim
{

class Window
{
      public:
	uint32_t first() const
	{
		return first_;
	}
	uint32_t count() const
	{
		return count_;
	}

	bool has(uint32_t packet) const
	{
		return packet - first_ < bits() && (words()[(packet & (bits() - 1)) >> 6] >> (packet & 63) & 1);
	}

	/* Adds a packet that is not before first(); false if it was in. */
	bool add(uint32_t packet)
	{
		while (packet - first_ >= bits())
			widen();
		uint64_t &word = words()[(packet & (bits() - 1)) >> 6];
		const uint64_t bit = uint64_t(1) << (packet & 63);
		if (word & bit)
			return false;
		word |= bit;
		count_++;
		return true;
	}

	void remove(uint32_t packet)
	{
		if (!has(packet))
			return;
		words()[(packet & (bits() - 1)) >> 6] &= ~(uint64_t(1) << (packet & 63));
		count_--;
	}

	/* Takes the unbroken row of packets at first() out; returns the new first. */
	uint32_t advance()
	{
		while (count_ && has(first_)) {
			remove(first_);
			first_++;
		}
		return first_;
	}

	/* Packets before `packet` leave the set. */
	void advance_to(uint32_t packet)
	{
		while (first_ < packet) {
			if (!count_) {
				first_ = packet;
				return;
			}
			remove(first_);
			first_++;
		}
	}

	void clear()
	{
		if (!count_)
			return;
		for (uint32_t i = 0; i < word_count_; i++)
			words()[i] = 0;
		count_ = 0;
	}

      private:
	uint32_t bits() const
	{
		return word_count_ * 64;
	}
	uint64_t *words()
	{
		return wide_ ? wide_.get() : narrow_;
	}
	const uint64_t *words() const
	{
		return wide_ ? wide_.get() : narrow_;
	}

	void widen()
	{
		const uint32_t old = word_count_;
		std::unique_ptr<uint64_t[]> wider(new uint64_t[size_t(2) * old]());

		for (uint32_t packet = first_; packet - first_ < old * 64; packet++)
			if (has(packet))
				wider[(packet & (128 * old - 1)) >> 6] |= uint64_t(1) << (packet & 63);
		wide_ = std::move(wider);
		word_count_ = 2 * old;
	}

	uint32_t first_ = 0, count_ = 0, word_count_ = 1;
	uint64_t narrow_[1] = { 0 };
	std::unique_ptr<uint64_t[]> wide_; /* where 64 packets were not enough: log2(window) allocations a flow */
};

} // namespace sim

#endif
