/*
 * The event queue: what happens next, in order of time; events of one time in the order in which they were put in.
 *
 * A radix calendar (a hierarchical timing wheel that never rounds). An event stands in the first level whose window
 * holds both now and its time: 2^14 buckets of 2^width ps, then 2^12 buckets a level, each as wide as the whole level
 * before, until all 63 bits of a time have a place. Opening a bucket sorts it (a bucket of the first level holds some ten
 * events if the width is right) or deals it out to the level before. All cost is per event, none per empty bucket:
 * bitmaps say where the next one is.
 *
 * Fetching ahead. A large fabric's packets, ports and flows are in no near cache, and an access to memory takes as long
 * as some three events. Buckets (core/buckets.h) say where their events are without touching them; so while one bucket is
 * worked off, of the next one is fetched what its events will touch (`fetch`), of the second the events themselves, of
 * the third the list of them; and of the bucket itself, as it is opened, what could not be named before (`follow`). It
 * changes no order: a bucket is read again when it is opened.
 *
 * Events are parts of the things that they happen to (a packet, a port, a timer): no allocation. None is taken out
 * before its time: one that is no longer wanted becomes Kind::NOTHING. Order does not depend on the width: since a
 * window's events stand in a later level until now enters that window, nothing that is put in later can get in front.
 */
#ifndef QCLIMB_SIM_CALENDAR_H
#define QCLIMB_SIM_CALENDAR_H

#include "core/buckets.h"

#include <algorithm>

namespace sim
{

class Calendar
{
      public:
	/* width_bits: a bucket of the first level is 2^width_bits ps wide; at most Entry::TIME_BITS. */
	explicit Calendar(int width_bits) : offset_mask_((Time(1) << width_bits) - 1), ready_(FEW + LANES)
	{
		int shift = width_bits;

		for (int level = 0; level < LEVELS; level++) {
			const int bits = std::min(level ? 12 : 14, TIME_BITS - shift);
			level_[level].open(shift, bits);
			shift += bits;
		}
	}
	Calendar(const Calendar &) = delete;
	Calendar &operator=(const Calendar &) = delete;

	/* Puts an event in; its time must not lie before the event that was taken last. */
	void put(Event *event, Time time)
	{
		SIM_CHECK(time >= base_, "no event lies in the past");
		event->time = time;
		event->is_scheduled = true;
		live_++;
		const Entry entry(event, uint32_t(time & offset_mask_));
		const uint64_t apart = static_cast<uint64_t>(time ^ base_);

		if (apart >> level_[0].end_shift == 0) {
			const uint32_t at = level_[0].bucket_of(time);
			if (at != open_)
				level_[0].add(at, entry, chunks_);
			else
				insert_sorted(event);
			return;
		}
		int n = 1;
		while (apart >> level_[n].end_shift)
			n++;
		level_[n].add(level_[n].bucket_of(time), entry, chunks_);
	}

	/* The next event, or null. `fetch` is handed events that come soon, and are near by now; `follow` those that come next,
	 * and what `fetch` fetched of them is near. */
	template <class Fetch, class Follow> Event *take(Fetch fetch, Follow follow)
	{
		while (taken_ == ready_count_)
			if (!open_next(fetch, follow))
				return nullptr;
		Event *event = ready_[taken_++];
		event->is_scheduled = false;
		live_--;
		return event;
	}

      private:
	static constexpr int LEVELS = 5, TIME_BITS = 63;
	static constexpr uint32_t NONE = Buckets::NONE;
	static constexpr uint32_t FEW = 128, LANES = 8; /* so many are sorted by counting, so many of them at once */
	static constexpr size_t MANY = 1024; /* events; what belongs to fewer is near anyway */
	static constexpr uint32_t AHEAD = 8; /* events, where a bucket is dealt out */

	/* Into the open bucket, behind the events that are not later. */
	void insert_sorted(Event *event)
	{
		if (ready_count_ == ready_.size())
			ready_.resize(2 * ready_.size());
		uint32_t at = ready_count_++;
		for (; at > taken_ && ready_[at - 1]->time > event->time; at--)
			ready_[at] = ready_[at - 1];
		ready_[at] = event;
	}

	template <class Fetch, class Follow> bool open_next(Fetch fetch, Follow follow)
	{
		Buckets &level = level_[0];
		const uint32_t at = level.next_used(open_ + 1);

		if (at == NONE)
			return deal_out();
		open_ = at;
		base_ = (base_ >> level.end_shift << level.end_shift) | (Time(at) << level.shift);
		open(level.count(at, chunks_));
		if (live_ < MANY)
			return true;
		for (uint32_t i = 0; i < ready_count_; i++)
			follow(*ready_[i]);
		if (first_at_ == NONE || at >= first_at_)
			look_ahead(at, fetch);
		return true;
	}

	/* The buckets after `at` move up. */
	template <class Fetch> void look_ahead(uint32_t at, Fetch fetch)
	{
		const Buckets &level = level_[0];

		first_at_ = planned(second_at_, at);
		second_at_ = planned(third_at_, first_at_);
		third_at_ = planned(NONE, second_at_);
		if (third_at_ != NONE)
			level.fetch(third_at_, chunks_);
		if (second_at_ != NONE)
			level.each(second_at_, chunks_, [](const Event &event) { __builtin_prefetch(&event); });
		if (first_at_ != NONE)
			level.each(first_at_, chunks_, fetch);
	}

	/* The bucket that was to come after `before`, or what comes now. */
	uint32_t planned(uint32_t at, uint32_t before) const
	{
		if (before == NONE)
			return NONE;
		return at != NONE && at > before ? at : level_[0].next_used(before + 1);
	}

	/* The events of the open bucket, in order. */
	void open(uint32_t n)
	{
		taken_ = 0;
		ready_count_ = n;
		if (n > FEW) {
			open_many(n);
			return;
		}
		int32_t key[FEW + LANES];
		Event *event[FEW + LANES];
		level_[0].empty(open_, n, chunks_, [&](uint32_t i, Entry entry) {
			key[i] = int32_t(entry.time() * FEW + i);
			event[i] = entry.event();
		});
		if (n == 1) {
			ready_[0] = event[0];
			return;
		}
		for (uint32_t i = n; i < n + LANES; i++) {
			key[i] = INT32_MAX; /* these go to ready_[n] */
			event[i] = nullptr;
		}
		for (uint32_t from = 0; from < n; from += LANES) {
			int32_t before[LANES] = {};
			for (uint32_t i = 0; i < n; i++)
				for (uint32_t lane = 0; lane < LANES; lane++)
					before[lane] += key[i] < key[from + lane];
			for (uint32_t lane = 0; lane < LANES; lane++)
				ready_[uint32_t(before[lane])] = event[from + lane];
		}
	}

	void open_many(uint32_t n)
	{
		entry_.resize(n);
		level_[0].empty(open_, n, chunks_, [this](uint32_t i, Entry entry) { entry_[i] = entry; });
		std::stable_sort(entry_.begin(), entry_.end(), [](Entry a, Entry b) { return a.time() < b.time(); });
		if (ready_.size() < n)
			ready_.resize(2 * size_t(n));
		for (uint32_t i = 0; i < n; i++)
			ready_[i] = entry_[i].event();
	}

	/* The first level is empty: brings the next bucket of a later one down. */
	bool deal_out()
	{
		for (int n = 1; n < LEVELS; n++) {
			Buckets &level = level_[n];
			const uint32_t at = level.next_used(level.bucket_of(base_) + 1);
			if (at == NONE)
				continue;
			const uint32_t count = level.count(at, chunks_);
			entry_.resize(count + AHEAD);
			level.empty(at, count, chunks_, [this](uint32_t i, Entry entry) { entry_[i] = entry; });
			base_ = (base_ >> level.end_shift << level.end_shift) | (Time(at) << level.shift);
			open_ = first_at_ = second_at_ = third_at_ = NONE;
			for (uint32_t i = 0; i < count; i++) {
				__builtin_prefetch(entry_[i + AHEAD].event());
				live_--;
				put(entry_[i].event(), entry_[i].event()->time);
			}
			return true;
		}
		return false;
	}

	const Time offset_mask_;
	size_t live_ = 0; /* events that stand in here */
	uint32_t open_ = NONE; /* the open bucket of the first level */
	uint32_t taken_ = 0, ready_count_ = 0;
	std::vector<Event *> ready_; /* the open bucket, sorted; those from taken_ on are still to come */
	Time base_ = 0; /* where the open bucket begins */
	uint32_t first_at_ = NONE, second_at_ = NONE, third_at_ = NONE; /* buckets after the open one */
	Chunks chunks_;
	std::vector<Entry> entry_; /* a bucket that was taken out */
	Buckets level_[LEVELS];
};

} // namespace sim

#endif
