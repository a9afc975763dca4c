/*
 * A port ordered by rank beside the plainest one there is, a vector that is searched.  Usage: ranks_check LIMIT_BYTES SEED
 * Packets come faster than they go, then slower, so that a port without a small limit is deep for a while and empties.
 */
#include "queues/pfabric.h"

#include <random>

using namespace sim;

struct Plain {
	std::vector<Packet *> waiting;
	uint64_t bytes = 0, limit;

	Packet *take(size_t at)
	{
		Packet *packet = waiting[at];
		waiting.erase(waiting.begin() + long(at));
		bytes -= packet->wire_bytes;
		return packet;
	}
	Packet *push(Packet *packet)
	{
		size_t worst = 0;
		waiting.push_back(packet);
		bytes += packet->wire_bytes;
		for (size_t i = 0; i < waiting.size(); i++)
			worst = waiting[i]->rank >= waiting[worst]->rank ? i : worst;
		return bytes > limit ? take(worst) : nullptr;
	}
	Packet *pop()
	{
		size_t best = 0, first = 0;
		for (size_t i = 0; i < waiting.size(); i++)
			best = waiting[i]->rank < waiting[best]->rank ? i : best;
		while (waiting[best]->rank && waiting[first]->flow != waiting[best]->flow)
			first++;
		return take(waiting[best]->rank ? first : best);
	}
};

static int ranks_check(char **argv)
{
	const std::string limit = argv[1];
	std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
	std::string words[] = { "ranks_check", "buffer_bytes=" + limit };
	char *given[] = { words[0].data(), words[1].data() };
	PfabricQueue queue(Config::read(2, given), Place::SPINE);
	Plain plain;
	std::vector<FlowBase> flows(300);
	std::vector<std::unique_ptr<Packet>> packets;
	size_t deepest = 0, dropped = 0;

	plain.limit = std::stoull(limit);
	for (int step = 0; step < 40'000; step++) {
		const bool is_rush = step % 20'000 < 6'000;
		if (random() % 10 < (is_rush ? 7u : 4u)) {
			packets.push_back(std::make_unique<Packet>(&flows[random() % flows.size()]));
			Packet *packet = packets.back().get();
			packet->wire_bytes = 40 + uint32_t(random() % 1460);
			packet->rank = random() % 10 ? 1 + uint32_t(random() % 400) : 0;
			if (!packet->rank)
				packet->flow = &flows[0]; /* the plain one searches by flow; rank 0 goes in order of arrival */
			Packet *lost = queue.push(packet);
			if (lost != plain.push(packet))
				return 1;
			dropped += lost != nullptr;
		} else if (!plain.waiting.empty()) {
			if (queue.is_empty() || queue.pop() != plain.pop())
				return 2;
		}
		if (queue.is_empty() != plain.waiting.empty() || queue.bytes() != plain.bytes)
			return 3;
		deepest = std::max(deepest, plain.waiting.size());
	}
	if (queue.counted_bytes() != queue.bytes())
		return 4;
	std::printf("%zu at most, %zu dropped\n", deepest, dropped);
	return 0;
}
