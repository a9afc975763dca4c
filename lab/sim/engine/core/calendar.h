/*
 * The event queue: what happens next, in order of time; events of one time in the order in which they were put in.
 *
 * A radix calendar (a hierarchical timing wheel that never rounds). An event stands in the first level whose window
 * holds both now and its time: 2^14 buckets of 2^width ps, then thrice 2^12 buckets, each as wide as the whole level
 * before. Opening a bucket sorts it (a bucket of the first level holds about one event if the width is right) or deals
 * it out to the level before. All cost is per event, none per empty bucket: bitmaps say where the next one is.
 *
 * Events are parts of the things that they happen to (a packet, a port, a timer): no allocation, and putting one in
 * touches no other event's memory. None is taken out before its time: one that is no longer wanted becomes
 * Kind::NOTHING. Order does not depend on the width: since a window's events stand in a later level until now enters
 * that window, nothing that is put in later can get in front.
 */
#ifndef QCLIMB_SIM_CALENDAR_H
#define QCLIMB_SIM_CALENDAR_H

#include "core/units.h"

#include <vector>

namespace sim
{

enum class Kind : uint8_t { PACKET, PORT, TIMER, ARRIVAL, NOTHING };

struct Event {
	Time time = 0;
	Event *next = nullptr;
	Kind kind = Kind::NOTHING;
	bool is_scheduled = false;
};

class Calendar
{
      public:
	/* width_bits: a bucket of the first level is 2^width_bits ps wide. */
	explicit Calendar(int width_bits)
	{
		int shift = width_bits;

		for (int level = 0; level < LEVELS; level++) {
			level_[level].open(shift, level ? 12 : 14);
			shift += level ? 12 : 14;
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
		const uint64_t apart = static_cast<uint64_t>(time ^ base_);

		if (apart >> level_[0].end_shift == 0) {
			Level &level = level_[0];
			const uint32_t at = level.bucket_of(time);
			if (at != open_) {
				level.push(event, at);
				return;
			}
			insert_sorted(event);
			return;
		}
		int n = 1;
		while (apart >> level_[n].end_shift)
			n++;
		level_[n].push(event, level_[n].bucket_of(time));
	}

	/* The next event, or null. */
	Event *take()
	{
		while (!sorted_)
			if (!open_next())
				return nullptr;
		Event *event = sorted_;
		sorted_ = event->next;
		event->is_scheduled = false;
		return event;
	}

      private:
	static constexpr int LEVELS = 4;
	static constexpr uint32_t NONE = UINT32_MAX;

	struct Level {
		int shift = 0, end_shift = 0; /* bits of a time below a bucket, and below the whole level */
		uint32_t mask = 0;
		std::vector<Event *> bucket;
		std::vector<uint64_t> used, used_words; /* a bit a bucket, a bit a word of these */

		void open(int at, int bits)
		{
			shift = at;
			end_shift = at + bits;
			mask = (1u << bits) - 1;
			bucket.assign(size_t(1) << bits, nullptr);
			used.assign((size_t(1) << bits) / 64, 0);
			used_words.assign((used.size() + 63) / 64, 0);
		}

		uint32_t bucket_of(Time time) const
		{
			return static_cast<uint32_t>(time >> shift) & mask;
		}

		void push(Event *event, uint32_t at)
		{
			event->next = bucket[at];
			bucket[at] = event;
			used[at >> 6] |= uint64_t(1) << (at & 63);
			used_words[at >> 12] |= uint64_t(1) << ((at >> 6) & 63);
		}

		/* Takes the first used bucket from `from` on; NONE if there is none. The newest event comes first. */
		uint32_t take_from(uint32_t from, Event **events)
		{
			const uint32_t at = next_used(from);

			if (at == NONE)
				return NONE;
			used[at >> 6] &= ~(uint64_t(1) << (at & 63));
			if (!used[at >> 6])
				used_words[at >> 12] &= ~(uint64_t(1) << ((at >> 6) & 63));
			*events = bucket[at];
			bucket[at] = nullptr;
			return at;
		}

		uint32_t next_used(uint32_t from) const
		{
			if (from > mask)
				return NONE;
			uint32_t word = from >> 6;
			const uint64_t here = used[word] & (~uint64_t(0) << (from & 63));
			if (here)
				return (word << 6) | static_cast<uint32_t>(__builtin_ctzll(here));
			word++;
			for (size_t group = word >> 6; group < used_words.size(); group++) {
				uint64_t words = used_words[group];
				if (group == word >> 6)
					words &= ~uint64_t(0) << (word & 63);
				if (words) {
					const uint32_t at = static_cast<uint32_t>(group << 6) |
							    static_cast<uint32_t>(__builtin_ctzll(words));
					return (at << 6) | static_cast<uint32_t>(__builtin_ctzll(used[at]));
				}
			}
			return NONE;
		}
	};

	/* Behind the events that are not later. */
	void insert_sorted(Event *event)
	{
		Event **at = &sorted_;

		while (*at && (*at)->time <= event->time)
			at = &(*at)->next;
		link(event, at);
	}

	void link(Event *event, Event **at)
	{
		event->next = *at;
		*at = event;
	}

	bool open_next()
	{
		Event *events = nullptr;
		const uint32_t at = level_[0].take_from(open_ == NONE ? 0 : open_ + 1, &events);

		if (at == NONE)
			return deal_out();
		open_ = at;
		base_ = (base_ >> level_[0].end_shift << level_[0].end_shift) | (Time(at) << level_[0].shift);
		while (events) { /* newest first: each goes before those of its own time */
			Event *event = events;
			events = event->next;
			Event **place = &sorted_;
			while (*place && (*place)->time < event->time)
				place = &(*place)->next;
			link(event, place);
		}
		return true;
	}

	/* The first level is empty: brings the next bucket of a later one down. */
	bool deal_out()
	{
		for (int n = 1; n < LEVELS; n++) {
			Level &level = level_[n];
			Event *newest = nullptr;
			const uint32_t at = level.take_from(level.bucket_of(base_) + 1, &newest);
			if (at == NONE)
				continue;
			base_ = (base_ >> level.end_shift << level.end_shift) | (Time(at) << level.shift);
			open_ = NONE;
			Event *oldest = nullptr;
			while (newest) {
				Event *event = newest;
				newest = event->next;
				event->next = oldest;
				oldest = event;
			}
			while (oldest) {
				Event *event = oldest;
				oldest = event->next;
				put(event, event->time);
			}
			return true;
		}
		return false;
	}

	Event *sorted_ = nullptr; /* what is left of the open bucket */
	uint32_t open_ = NONE; /* the open bucket of the first level */
	Time base_ = 0; /* where the open bucket begins */
	Level level_[LEVELS];
};

} // namespace sim

#endif
