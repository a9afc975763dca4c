/*
 * A fabric of any shape: its links and its paths as whoever planned it wrote them (lab/sim/wired.py), read from stdin
 * ahead of the flows. Servers may have several ports, and may relay.
 *
 * In 32-bit words, little-endian: hosts, links, pairs, paths, words; of each link place, the link back, ps a byte (two
 * words) and delay in ps (two words); of each pair source, target, its first path and how many; of each path where its
 * links begin among the words, and one word that ends the last; the links of all paths in order.
 * A packet finds its pair once a flow, then takes the path that its turn says, and an answer the same links back.
 * It carries a path of up to NEAR_HOPS links itself, where their numbers have 16 bits: a large fabric's table of paths is
 * in no near cache, and each of its hops would wait for it. For the same reason a flow that keeps to one path knows it.
 */
#ifndef QCLIMB_SIM_WIRING_H
#define QCLIMB_SIM_WIRING_H

#include "core/config.h"
#include "core/packet.h"

#include <cstring>
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
			back_.push_back(ends[i + 1]);
		}
		near_hops_ = back_.size() <= size_t(UINT16_MAX) + 1 ? NEAR_HOPS : 0;
		const std::vector<uint32_t> pairs = words(4 * size_t(head[PAIRS]));
		begins_ = words(size_t(head[PATHS]) + 1);
		words_ = words(head[WORDS]);
		for (size_t i = 0; i < head[PATHS]; i++)
			check_path(i);
		for (const uint32_t link : words_)
			if (link >= head[LINKS])
				refuse("the wiring's paths have link " + std::to_string(link) + ", expected below " +
				       std::to_string(head[LINKS]));
		for (size_t i = 0; i < pairs.size(); i += 4) {
			const uint64_t end = uint64_t(pairs[i + 2]) + pairs[i + 3];
			if (!pairs[i + 3] || end > head[PATHS])
				refuse("the wiring's pair " + std::to_string(i / 4) + " has no path");
			at_.emplace(key(pairs[i], pairs[i + 1]), uint32_t(pairs_.size()));
			pairs_.push_back({ pairs[i + 2], pairs[i + 3] });
		}
	}

	/* Sets the packet's path; returns its first port. `keeps`: all of the flow's packets take that of this turn. */
	uint32_t route(Packet &packet, FlowBase &flow, uint64_t turn, bool keeps) const
	{
		if (keeps && flow.hops) {
			packet.hops = flow.hops;
			std::memcpy(packet.path, flow.near[packet.to_sender], sizeof(packet.path));
			return packet.path[0];
		}
		if (flow.pair == UINT32_MAX) {
			const auto found = at_.find(key(flow.source, flow.target));
			if (found == at_.end())
				refuse("flow " + std::to_string(flow.index) + ": the wiring has no path from host " +
				       std::to_string(flow.source) + " to host " + std::to_string(flow.target));
			flow.pair = found->second;
		}
		const Pair pair = pairs_[flow.pair];
		const uint32_t path = pair.first + uint32_t(turn % pair.count);
		const uint32_t from = begins_[path], hops = begins_[path + 1] - from;
		packet.hops = uint8_t(hops);
		if (hops > near_hops_) {
			packet.ahead[0] = from;
			return port(packet, 0);
		}
		for (uint32_t hop = 0; hop < hops; hop++)
			packet.path[hop] = uint16_t(link(from, hops, hop, packet.to_sender));
		if (keeps) {
			flow.hops = packet.hops;
			for (uint32_t hop = 0; hop < hops; hop++) {
				flow.near[0][hop] = uint16_t(link(from, hops, hop, false));
				flow.near[1][hop] = uint16_t(link(from, hops, hop, true));
			}
		}
		return packet.path[0];
	}

	/* Of a packet's path, from 0. */
	uint32_t port(const Packet &packet, uint32_t hop) const
	{
		if (packet.hops <= near_hops_)
			return packet.path[hop];
		return link(packet.ahead[0], packet.hops, hop, packet.to_sender);
	}

	/* The port by which the other end of a link sends. */
	uint32_t back(uint32_t port) const
	{
		return back_[port];
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

	/* The n-th link of the path whose links begin at `from`, or of the way back. */
	uint32_t link(uint32_t from, uint32_t hops, uint32_t n, bool to_sender) const
	{
		return to_sender ? back_[words_[from + hops - 1 - n]] : words_[from + n];
	}

	void check_path(size_t i) const
	{
		const uint32_t from = begins_[i], to = begins_[i + 1];

		if (to > words_.size() || from + 2 > to || to > from + MAX_HOPS)
			refuse("the wiring's path " + std::to_string(i) + " has " + std::to_string(int64_t(to) - from) +
			       " links, expected 2 to " + std::to_string(MAX_HOPS));
	}

	std::vector<uint32_t> back_, begins_, words_;
	std::vector<Pair> pairs_;
	std::unordered_map<uint64_t, uint32_t> at_;
	uint32_t near_hops_ = 0; /* a path of more links is looked up hop by hop */
};

} // namespace sim

#endif
