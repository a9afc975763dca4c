/*
 * Hosts, leaves and spines as numbered ports, and which of them a packet passes.
 *
 * A star is one leaf without spines; a single-rooted tree has one spine. Ports: a host's towards its leaf, the leaf's
 * towards the host, the leaf's towards each spine, the spine's towards each leaf. Spines are chosen by
 *   ecmp      a hash of the flow and the direction: one path a flow;
 *   spray     each host's packets go round the spines in turn;
 *   priority  Big-Spine: priority p < P - 1 has spine p mod K, the last one is spread by flow (ecmp).
 * Weights make a spine's share of ecmp, and of spray (then by hash and not in turn).
 */
#ifndef QCLIMB_SIM_TOPOLOGY_H
#define QCLIMB_SIM_TOPOLOGY_H

#include "core/config.h"
#include "core/packet.h"

namespace sim
{

enum class Place : uint8_t { HOST, LEAF_UP, SPINE, LEAF_DOWN };
constexpr int PLACES = 4;

struct Link {
	Place place;
	Time ps_per_byte, delay;
};

class Topology
{
      public:
	explicit Topology(const Config &config)
	    : leaves_(uint32_t(config.number("leaves"))), spines_(uint32_t(config.number("spines"))),
	      per_leaf_(uint32_t(config.number("hosts_per_leaf"))), hosts_(leaves_ * per_leaf_),
	      seed_(uint64_t(config.number("seed"))), priorities_(uint32_t(config.number("priorities")))
	{
		const std::string routing = config.text("routing");

		routing_ = routing == "ecmp" ? Routing::ECMP : routing == "spray" ? Routing::SPRAY : Routing::PRIORITY;
		if (routing != "ecmp" && routing != "spray" && routing != "priority")
			refuse("routing is " + routing + ", expected ecmp, spray or priority");
		for (const uint64_t share : config.numbers("spine_shares"))
			until_.push_back(share + (until_.empty() ? 0 : until_.back()));
		const Time edge = config.number("edge_delay_ps"), core = config.number("core_delay_ps");
		const Time slow = config.number("host_ps_per_byte"), fast = config.number("uplink_ps_per_byte");
		for (uint32_t i = 0; i < hosts_; i++)
			links.push_back({ Place::HOST, slow, edge });
		for (uint32_t i = 0; i < hosts_; i++)
			links.push_back({ Place::LEAF_DOWN, slow, edge });
		for (uint32_t i = 0; i < leaves_ * spines_; i++)
			links.push_back({ Place::LEAF_UP, fast, core });
		for (uint32_t i = 0; i < leaves_ * spines_; i++)
			links.push_back({ Place::SPINE, fast, core });
		for (uint32_t i = 0; i < hosts_; i++)
			turn_.push_back(mix(seed_, i));
	}

	uint32_t hosts() const
	{
		return hosts_;
	}

	/* The host, and with it its port, behind a leaf's port towards hosts. */
	uint32_t host_after(uint32_t leaf_port) const
	{
		return leaf_port - hosts_;
	}

	/* Sets the packet's path; returns its first port. */
	uint32_t route(Packet &packet)
	{
		const FlowBase &flow = *packet.flow;
		const uint32_t from = packet.to_sender ? flow.target : flow.source;
		const uint32_t to = packet.to_sender ? flow.source : flow.target;
		const uint32_t leaf = from / per_leaf_, other = to / per_leaf_;

		packet.hop = 0;
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

      private:
	enum class Routing { ECMP, SPRAY, PRIORITY };

	uint32_t spine_of(const Packet &packet, const FlowBase &flow, uint32_t from)
	{
		if (routing_ == Routing::PRIORITY && packet.rank + 1 < priorities_)
			return packet.rank % spines_;
		if (routing_ == Routing::SPRAY) {
			const uint64_t n = turn_[from]++;
			return until_.empty() ? uint32_t(n % spines_) : by_share(mix(n, seed_));
		}
		const uint64_t hash = mix(flow.index * 2 + packet.to_sender, seed_);
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

	uint32_t leaves_, spines_, per_leaf_, hosts_;
	uint64_t seed_;
	uint32_t priorities_;
	Routing routing_;
	std::vector<uint64_t> until_; /* running sums of the spines' shares; empty: equal */
	std::vector<uint64_t> turn_; /* of each host, for spraying */
};

} // namespace sim

#endif
