/*
 * A list of things that are seldom more than INSIDE, which lie within it: whoever has the list near has them near. More
 * lie outside, all together.
 */
#ifndef QCLIMB_SIM_FEW_H
#define QCLIMB_SIM_FEW_H

#include <algorithm>
#include <cstdint>
#include <memory>

namespace sim
{

template <class T, uint32_t INSIDE> class Few
{
      public:
	uint32_t size() const
	{
		return count_;
	}
	T *begin()
	{
		return count_ > INSIDE ? outside_.get() : inside_;
	}
	T *end()
	{
		return begin() + count_;
	}
	const T *begin() const
	{
		return count_ > INSIDE ? outside_.get() : inside_;
	}
	const T *end() const
	{
		return begin() + count_;
	}
	T &operator[](uint32_t at)
	{
		return begin()[at];
	}
	const T &operator[](uint32_t at) const
	{
		return begin()[at];
	}

	void insert(uint32_t at, const T &thing)
	{
		const T *old = begin();

		if (count_ == room_)
			grow();
		if (count_ == INSIDE)
			std::copy(old, old + count_, outside_.get());
		count_++;
		std::move_backward(begin() + at, end() - 1, end());
		begin()[at] = thing;
	}

	void erase(uint32_t at)
	{
		std::move(begin() + at + 1, end(), begin() + at);
		cut(count_ - 1);
	}

	/* Keeps the first so many. */
	void cut(uint32_t count)
	{
		if (count_ > INSIDE && count <= INSIDE)
			std::copy(outside_.get(), outside_.get() + count, inside_);
		count_ = count;
	}

      private:
	void grow()
	{
		std::unique_ptr<T[]> wider(new T[size_t(2) * room_]);

		if (count_ > INSIDE)
			std::copy(begin(), end(), wider.get());
		outside_ = std::move(wider);
		room_ *= 2;
	}

	uint32_t count_ = 0, room_ = INSIDE;
	T inside_[INSIDE];
	std::unique_ptr<T[]> outside_; /* holds all where there are more; its memory is kept */
};

} // namespace sim

#endif
