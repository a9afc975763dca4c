/*
 * The event queue beside the plainest one there is, a multimap (which keeps the order of equals).  Usage: calendar_check WIDTH_BITS SEED
 * Delays are drawn so that many events share a time, a bucket holds from one to some hundreds, and all levels are used.
 */
#include "core/calendar.h"

#include <map>
#include <random>

using sim::Calendar;
using sim::Event;
using sim::Time;

static int calendar_check(char **argv)
{
	const int bits = std::atoi(argv[1]);
	std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
	Calendar calendar(bits);
	std::multimap<Time, Event *> reference;
	std::vector<Event> events(6000), burst(300), last(3);
	const Time bucket = Time(1) << bits;
	const Time longest[] = { 1, bucket, 20 * bucket, 9000 * bucket, 40000 * bucket, bucket << 27 };
	Time now = 0;
	size_t fetched = 0, followed = 0, taken = 0;
	const auto fetch = [&](const Event &soon) { fetched += soon.is_scheduled; };
	const auto follow = [&](const Event &next) { followed += next.is_scheduled; };
	const auto put = [&](Event *event) {
		const Time at = now + Time(random() % uint64_t(longest[random() % 6]));
		reference.emplace(at, event);
		calendar.put(event, at);
	};

	for (Event &event : events)
		put(&event);
	for (Event &event : last) { /* beyond all that is put in while this lasts */
		const Time at = sim::MOST_TIME + Time(random() % uint64_t(sim::MOST_TIME));
		reference.emplace(at, &event);
		calendar.put(&event, at);
	}
	while (Event *event = calendar.take(fetch, follow)) {
		if (reference.begin()->second != event || event->time < now || event->is_scheduled)
			return 1;
		now = event->time;
		reference.erase(reference.begin());
		taken++;
		if (taken < 200000)
			put(event);
		if (taken == 100000)
			for (Event &one : burst) { /* more at one moment than are sorted by counting */
				reference.emplace(now + 3 * bucket, &one);
				calendar.put(&one, now + 3 * bucket);
			}
	}
	std::printf("%zu taken, %zu fetched ahead\n", taken, fetched);
	return reference.empty() && fetched && followed ? 0 : 2;
}
