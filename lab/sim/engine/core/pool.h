/*
 * Memory of things that come and go with packets and flows: slabs that are never given back while a run lasts, so that
 * memory is what was in flight at the worst moment, and no packet costs an allocation.
 */
#ifndef QCLIMB_SIM_POOL_H
#define QCLIMB_SIM_POOL_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sim
{

template <class T> class Pool
{
      public:
	template <class... Args> T *make(Args &&...args)
	{
		if (!free_)
			grow();
		Slot *slot = free_;
		free_ = slot->next;
		live_++;
		peak_ = live_ > peak_ ? live_ : peak_;
		return new (slot) T(std::forward<Args>(args)...);
	}

	void drop(T *thing)
	{
		thing->~T();
		Slot *slot = reinterpret_cast<Slot *>(thing);
		slot->next = free_;
		free_ = slot;
		live_--;
	}

	size_t live() const
	{
		return live_;
	}
	size_t peak() const
	{
		return peak_;
	}
	size_t bytes() const
	{
		return slabs_.size() * SLAB * sizeof(Slot);
	}

      private:
	static constexpr size_t SLAB = 1024;
	union Slot {
		Slot *next;
		alignas(T) unsigned char space[sizeof(T)];
	};

	void grow()
	{
		slabs_.push_back(std::make_unique<Slot[]>(SLAB));
		Slot *slab = slabs_.back().get();
		for (size_t i = SLAB; i-- > 0;) {
			slab[i].next = free_;
			free_ = &slab[i];
		}
	}

	Slot *free_ = nullptr;
	size_t live_ = 0, peak_ = 0;
	std::vector<std::unique_ptr<Slot[]>> slabs_;
};

} // namespace sim

#endif
