/*
 * A fabric of any shape: its links and its paths as whoever planned it wrote them (lab/sim/wired.py), read from stdin
 * ahead of the flows. Servers may have several ports, and may relay.
 *
 * In 32-bit words, little-endian: hosts, links, pairs, paths, words; of each link place, the link back, ps a byte (two
 * words) and delay in ps (two words); of each pair source, target, its first path and how many; of each path where its
 * links begin among the words, and one word that ends the last; the links of all paths in order.
 * A packet finds its pair once a flow, then takes the path that its turn says, and an answer the same links back.
 */
#ifndef QCLIMB_SIM_WIRING_H
#define QCLIMB_SIM_WIRING_H

#include "core/config.h"
#include "core/packet.h"

#include <unordered_map>

namespace sim
{

enum class Place : uint8_t { HOST, LEAF_UP, SPINE, LEAF_DOWN };
constexpr int PLACES = 4;

constexpr uint32_t MOST_HOSTS = 1 << 20; /* and uplinks */
constexpr Time MOST_PS_PER_BYTE = 8'000'000'000'000; /* a bit a second */

struct Link {
	Place place;
	Time ps_per_byte, delay;
};

class Wiring
{
      public:
	void read(uint32_t hosts, std::vector<Link> *links)
	{
		enum { HOSTS, LINKS, PAIRS, PATHS, WORDS };
		const std::vector<uint32_t> head = words(5);

		if (head[HOSTS] != hosts || head[LINKS] > 2 * MOST_HOSTS || head[WORDS] > MOST_WORDS ||
		    head[PAIRS] > MOST_WORDS || head[PATHS] > MOST_WORDS)
			refuse("the wiring has " + std::to_string(head[HOSTS]) + " hosts and " +
			       std::to_string(head[LINKS]) + " links, expected " + std::to_string(hosts) +
			       " hosts and at most " + std::to_string(2 * MOST_HOSTS) + " links");
		const std::vector<uint32_t> ends = words(6 * size_t(head[LINKS]));
		for (size_t i = 0; i < ends.size(); i += 6) {
			const Time ps_per_byte = both(&ends[i + 2]), delay = both(&ends[i + 4]);
			if (ends[i] >= PLACES || ends[i + 1] >= head[LINKS] || ps_per_byte < 1 ||
			    ps_per_byte > MOST_PS_PER_BYTE || delay < 0 || delay > MOST_PS)
				refuse("the wiring's link " + std::to_string(i / 6) + " is none");
			links->push_back({ Place(ends[i]), ps_per_byte, delay });
			reverse_.push_back(ends[i + 1]);
		}
		const std::vector<uint32_t> pairs = words(4 * size_t(head[PAIRS]));
		begins_ = words(size_t(head[PATHS]) + 1);
		forth_ = words(head[WORDS]);
		for (size_t i = 0; i < head[PATHS]; i++)
			check_path(i);
		for (const uint32_t link : forth_)
			if (link >= head[LINKS])
				refuse("the wiring's paths have link " + std::to_string(link) + ", expected below " +
				       std::to_string(head[LINKS]));
		for (const uint32_t link : forth_)
			back_.push_back(reverse_[link]);
		for (size_t i = 0; i < begins_.size() - 1; i++)
			std::reverse(back_.begin() + begins_[i], back_.begin() + begins_[i + 1]);
		for (size_t i = 0; i < pairs.size(); i += 4) {
			const uint64_t end = uint64_t(pairs[i + 2]) + pairs[i + 3];
			if (!pairs[i + 3] || end > head[PATHS])
				refuse("the wiring's pair " + std::to_string(i / 4) + " has no path");
			at_.emplace(key(pairs[i], pairs[i + 1]), uint32_t(pairs_.size()));
			pairs_.push_back({ pairs[i + 2], pairs[i + 3] });
		}
		to_answers_ = uint32_t(forth_.size());
		forth_.insert(forth_.end(), back_.begin(), back_.end());
	}

	/* Sets the packet's path; returns its first port. */
	uint32_t route(Packet &packet, FlowBase &flow, uint64_t turn) const
	{
		if (flow.pair == UINT32_MAX) {
			const auto found = at_.find(key(flow.source, flow.target));
			if (found == at_.end())
				refuse("flow " + std::to_string(flow.index) + ": the wiring has no path from host " +
				       std::to_string(flow.source) + " to host " + std::to_string(flow.target));
			flow.pair = found->second;
		}
		const Pair pair = pairs_[flow.pair];
		const uint32_t path = pair.first + uint32_t(turn % pair.count);
		packet.hops = uint8_t(begins_[path + 1] - begins_[path]);
		packet.ahead[0] = begins_[path] + (packet.to_sender ? to_answers_ : 0);
		return forth_[packet.ahead[0]];
	}

	uint32_t port(uint32_t word) const
	{
		return forth_[word];
	}
	uint32_t back(uint32_t word) const
	{
		return reverse_[forth_[word]];
	}

      private:
	static constexpr uint32_t MOST_WORDS = 1 << 28;

	struct Pair {
		uint32_t first, count;
	};

	static uint64_t key(uint32_t source, uint32_t target)
	{
		return uint64_t(source) << 32 | target;
	}
	static Time both(const uint32_t *words)
	{
		return Time(words[0] | uint64_t(words[1]) << 32);
	}

	static std::vector<uint32_t> words(size_t count)
	{
		std::vector<uint32_t> found(count);

		if (std::fread(found.data(), sizeof(uint32_t), count, stdin) != count)
			refuse("the wiring ends too early");
		return found;
	}

	void check_path(size_t i) const
	{
		const uint32_t from = begins_[i], to = begins_[i + 1];

		if (to > forth_.size() || from + 2 > to || to > from + MAX_HOPS)
			refuse("the wiring's path " + std::to_string(i) + " has " + std::to_string(int64_t(to) - from) +
			       " links, expected 2 to " + std::to_string(MAX_HOPS));
	}

	std::vector<uint32_t> reverse_, begins_, forth_, back_;
	std::vector<Pair> pairs_;
	std::unordered_map<uint64_t, uint32_t> at_;
	uint32_t to_answers_ = 0;
};

} // namespace sim

#endif
