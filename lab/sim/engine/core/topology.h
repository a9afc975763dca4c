/*
 * Hosts, leaves and spines as numbered ports, and which of them a packet passes; or ports and paths as they are read
 * (`fabric` is wired: core/wiring.h).
 *
 * A star is one leaf without spines; a single-rooted tree has one spine. Ports: a host's towards its leaf, the leaf's
 * towards the host, the leaf's towards each spine, the spine's towards each leaf. Spines are chosen by
 *   ecmp      a hash of the flow and the direction: one path a flow;
 *   spray     each host's packets go round the spines in turn;
 *   priority  Big-Spine: data of priority p < P - 1 have spine p mod K; the last one is spread by flow (ecmp), and so is
 *             what goes back to senders: ACKs of all flows would fill spine 0, and the paper's model has none.
 * Weights make a spine's share of ecmp, and of spray (then by hash and not in turn).
 */
#ifndef QCLIMB_SIM_TOPOLOGY_H
#define QCLIMB_SIM_TOPOLOGY_H

#include "core/config.h"
#include "core/packet.h"
#include "core/wiring.h"

namespace sim
{

class Topology
{
	enum class Routing { ECMP, SPRAY, PRIORITY };

      public:
	explicit Topology(const Config &config)
	    : is_wired_(config.choice("fabric", { "leaf-spine", "wired" }) == 1),
	      leaves_(config.count("leaves", 1, MOST_HOSTS)), spines_(config.count("spines", 0, MOST_HOSTS)),
	      per_leaf_(config.count("hosts_per_leaf", 1, MOST_HOSTS)), hosts_(leaves_ * per_leaf_),
	      seed_(uint64_t(config.number("seed", 0, INT64_MAX))), priorities_(config.count("priorities", 1, 64)),
	      routing_(Routing(config.choice("routing", { "ecmp", "spray", "priority" })))
	{
		for (uint32_t i = 0; i < hosts_; i++)
			turn_.push_back(mix(seed_, i));
		if (is_wired_) {
			if (routing_ == Routing::PRIORITY)
				refuse("routing is priority, expected ecmp or spray in a wired fabric");
			wiring_.read(hosts_, &links);
			return;
		}
		const uint64_t hosts = uint64_t(leaves_) * per_leaf_, uplinks = uint64_t(leaves_) * spines_;

		if (hosts < 2 || hosts > MOST_HOSTS)
			refuse("leaves times hosts_per_leaf is " + std::to_string(hosts) + ", expected 2 to " +
			       std::to_string(MOST_HOSTS));
		if (uplinks > MOST_HOSTS || (!spines_ && (leaves_ > 1 || routing_ == Routing::PRIORITY)))
			refuse("leaves times spines is " + std::to_string(uplinks) + ", expected at most " +
			       std::to_string(MOST_HOSTS) + ", and 1 or more with several leaves or routing priority");
		const std::vector<uint64_t> shares = config.numbers("spine_shares", UINT32_MAX);
		for (const uint64_t share : shares)
			until_.push_back(share + (until_.empty() ? 0 : until_.back()));
		if (!until_.empty() && (until_.size() != spines_ || !until_.back()))
			refuse("spine_shares has " + std::to_string(shares.size()) + " numbers that add up to " +
			       std::to_string(until_.back()) + ", expected " + std::to_string(spines_) + ", not all 0");
		const Time edge = config.number("edge_delay_ps", 0, MOST_PS);
		const Time core = config.number("core_delay_ps", 0, MOST_PS);
		const Time slow = config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE);
		const Time fast = config.number("uplink_ps_per_byte", 1, MOST_PS_PER_BYTE);
		const uint32_t up = 2 * hosts_, down = up + leaves_ * spines_;
		for (uint32_t i = 0; i < hosts_; i++)
			put({ Place::HOST, slow, edge }, hosts_ + i);
		for (uint32_t i = 0; i < hosts_; i++)
			put({ Place::LEAF_DOWN, slow, edge }, i);
		for (uint32_t i = 0; i < leaves_ * spines_; i++)
			put({ Place::LEAF_UP, fast, core }, down + i % spines_ * leaves_ + i / spines_);
		for (uint32_t i = 0; i < leaves_ * spines_; i++)
			put({ Place::SPINE, fast, core }, up + i % leaves_ * spines_ + i / leaves_);
	}

	uint32_t hosts() const
	{
		return hosts_;
	}

	/* The port that a packet which has left `hop` ports stands at next. */
	uint32_t next_port(const Packet &packet) const
	{
		return is_wired_ ? wiring_.port(packet, packet.hop) : packet.ahead[packet.hop - 1];
	}

	/* The port that leads back over the link by which the packet has come; at its path's end, the one that answers. */
	uint32_t back_port(const Packet &packet) const
	{
		if (is_wired_)
			return wiring_.back(wiring_.port(packet, packet.hop - 1u));
		if (packet.hop == 1)
			return hosts_ + (packet.to_sender ? packet.flow->target : packet.flow->source);
		return back_[packet.ahead[packet.hop - 2]];
	}

	/* Sets the packet's path; returns its first port. */
	uint32_t route(Packet &packet)
	{
		FlowBase &flow = *packet.flow;
		const uint32_t from = packet.to_sender ? flow.target : flow.source;
		const uint32_t to = packet.to_sender ? flow.source : flow.target;
		const uint32_t leaf = from / per_leaf_, other = to / per_leaf_;

		packet.hop = 0;
		if (is_wired_) {
			const uint64_t turn =
				routing_ == Routing::SPRAY ? turn_[from]++ : mix(flow.index, seed_) + packet.part;
			return wiring_.route(packet, flow, turn, routing_ == Routing::ECMP && !packet.part);
		}
		if (leaf == other) {
			packet.hops = 2;
			packet.ahead[0] = hosts_ + to;
			return from;
		}
		const uint32_t spine = spine_of(packet, flow, from);
		packet.hops = 4;
		packet.ahead[0] = 2 * hosts_ + leaf * spines_ + spine;
		packet.ahead[1] = 2 * hosts_ + leaves_ * spines_ + spine * leaves_ + other;
		packet.ahead[2] = hosts_ + to;
		return from;
	}

	std::vector<Link> links;
	bool answers_return = false; /* under ecmp, the way that the data came */

      private:
	void put(const Link &link, uint32_t back)
	{
		links.push_back(link);
		back_.push_back(back);
	}

	uint32_t spine_of(const Packet &packet, const FlowBase &flow, uint32_t from)
	{
		if (routing_ == Routing::PRIORITY && packet.rank + 1 < priorities_ && !packet.to_sender)
			return packet.rank % spines_;
		if (routing_ == Routing::SPRAY) {
			const uint64_t n = turn_[from]++;
			return until_.empty() ? uint32_t(n % spines_) : by_share(mix(n, seed_));
		}
		const uint64_t hash = mix(flow.index * 2 + (packet.to_sender && !answers_return), seed_) + packet.part;
		return until_.empty() ? uint32_t(hash % spines_) : by_share(hash);
	}

	uint32_t by_share(uint64_t hash) const
	{
		const uint64_t at = hash % until_.back();
		uint32_t spine = 0;

		while (at >= until_[spine])
			spine++;
		return spine;
	}

	const bool is_wired_;
	Wiring wiring_;
	uint32_t leaves_, spines_, per_leaf_, hosts_;
	uint64_t seed_;
	uint32_t priorities_;
	Routing routing_;
	std::vector<uint32_t> back_; /* of each port of a leaf-spine, the one at the link's other end */
	std::vector<uint64_t> until_; /* running sums of the spines' shares; empty: equal */
	std::vector<uint64_t> turn_; /* of each host, for spraying */
};

} // namespace sim

#endif
