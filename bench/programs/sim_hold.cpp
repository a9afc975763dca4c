/*
 * What events cost in a simulator of the usual build: each a heap-allocated object in a std::priority_queue, taken in order of
 * time, touched, deleted, and followed by another one a random while later (the "hold" model of event-queue studies).
 * Prints CPU seconds a million events.  Usage: sim_hold EVENTS POPULATION
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <queue>
#include <vector>

struct Event {
	int64_t time;
	uint64_t state[7];
};

struct Later {
	bool operator()(const Event *a, const Event *b) const
	{
		return a->time > b->time;
	}
};

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const long events = std::atol(argv[1]), population = std::atol(argv[2]);
	std::priority_queue<Event *, std::vector<Event *>, Later> queue;
	uint64_t random = 1, sum = 0;
	const auto next = [&random] {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		return random >> 33;
	};

	for (long i = 0; i < population; i++)
		queue.push(new Event{ int64_t(next() % 3000000), {} });
	const std::clock_t begun = std::clock();
	for (long i = 0; i < events; i++) {
		Event *event = queue.top();
		queue.pop();
		const int64_t now = event->time;
		sum += ++event->state[next() % 7];
		delete event;
		queue.push(new Event{ now + int64_t(next() % 3000000), {} });
	}
	const double seconds = double(std::clock() - begun) / CLOCKS_PER_SEC;
	std::printf("%.9f\n", seconds / double(events) * 1e6);
	return sum == 0;
}
