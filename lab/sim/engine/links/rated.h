/*
 * Switches that tell senders at which rate to send: what PDQ, RCP and D3 share of them.
 *
 * A packet carries a header from its sender over all links of its path, and back in its ACK by the same links: `Rule`
 * sees it at each link both ways. Links are the ports that data leaves by, the sender's own first. Rates are whole bytes
 * a second, times ps; 0 is "send nothing". Knows no packet's content and no queue but its length.
 *
 * The capacity that a rule may hand out is what drains the queue: every second round trip
 * C = max(0, rate - queue / (2 RTT)), the RTT being the average of those that headers carry (PDQ, section 3.3.3), with the
 * link's own queue: where headers carry the least round trip, the queue's time is added. An order to send less comes
 * behind that queue; reckoned without it, a link cuts again before it can see its first cut.
 */
#ifndef QCLIMB_SIM_LINKS_RATED_H
#define QCLIMB_SIM_LINKS_RATED_H

#include "core/topology.h"

#include <algorithm>

namespace sim
{

constexpr Time SECOND = 1'000'000'000'000; /* ps */

/* What links know of a flow, or of the part of it that takes one path. */
struct RatedPart {
	uint32_t counted_at = 0; /* a bit a link that counts it */
	uint32_t paused_by = 0; /* the link that pauses it, from 1; 0: none does */
	bool is_whole = true; /* else one of several parts of a flow, which take turns and hear of it by ACKs */
	Time stopped_at = -1; /* when its own host's link last paused it; the sender of a whole flow knows at once */
};

/* Two cache lines. */
struct RatedPacket : Packet {
	uint32_t paused_by : 24; /* the link that pauses the flow, from 1; 0: none does */
	uint32_t counted : 4; /* so many links, from the first on, had counted the flow when this left */
	bool asks : 1; /* D3: a new request, once a round trip */
	uint64_t id = 0; /* the part's, in the order in which they came; of one flow side by side */
	RatedPart *of = nullptr; /* the scheme's: it lives as long as the packet's flow */
	uint64_t rate = 0; /* asked for on the way out, granted on the way back */
	Time rtt = 0; /* as the sender has measured it: the average, or the least (Rule::BY_LEAST_RTT) */
	Time sent = 0;
	Time left = 0; /* how long the rest of the flow takes at its sender's full rate */
	union {
		Time key = 0; /* PDQ: criticality goes by it after the deadline: `left`, or what stands in for it */
		uint64_t wanted; /* D3: enough for the deadline */
	};
	union {
		Time due = NEVER; /* on the way out: the deadline */
		Time probe_gap; /* on the way back: a paused sender asks again after so long */
	};

	explicit RatedPacket(FlowBase *its) : Packet(its), paused_by(0), counted(0), asks(false)
	{
	}
};
static_assert(sizeof(RatedPacket) == 128, "two lines");

/* A link's capacity and its count of flows. */
class LinkRate
{
      public:
	/* `by_least`: headers carry the least round trip, without queues. */
	LinkRate(Time ps_per_byte, Time rtt, bool by_least)
	    : full_(uint64_t(SECOND / ps_per_byte)), capacity_(full_), rtt_(rtt),
	      ps_per_byte_(by_least ? ps_per_byte : 0)
	{
	}

	/* A packet of a flow came by on its way out. Returns whether the capacity was set anew. */
	bool passed(const RatedPacket &packet, RatedPart &flow, Time now, uint64_t queued)
	{
		const uint32_t bit = 1u << packet.hop;

		if (packet.type == Type::TERM) {
			flows_ -= (flow.counted_at & bit) != 0;
			flow.counted_at &= ~bit;
			return false;
		}
		if (packet.hop >= packet.counted) { /* else it is known, and the flow need not be near */
			flows_ += !(flow.counted_at & bit);
			flow.counted_at |= bit;
		}
		rtt_ += (std::min(packet.rtt, SECOND) - rtt_) / 8;
		if (now < next_)
			return false;
		const Time round_trip = rtt_ + Time(queued) * ps_per_byte_;
		const uint64_t drain = queued * uint64_t(SECOND / (2 * round_trip));
		capacity_ = full_ > drain ? full_ - drain : 0;
		next_ = now + 2 * round_trip;
		return true;
	}

	uint64_t full() const
	{
		return full_;
	}
	uint64_t capacity() const
	{
		return capacity_;
	}
	uint64_t flows() const
	{
		return flows_;
	}
	Time rtt() const
	{
		return rtt_;
	}

      private:
	uint64_t full_, capacity_, flows_ = 0;
	Time rtt_, next_ = 0;
	Time ps_per_byte_; /* of what is queued, where that is not in round trips yet */
};

/* A `Rule` a link: out(packet, flow, now, queued) and back(packet), the flow being what links know of it. */
template <class Rule> class RatedLinks
{
      public:
	RatedLinks(const Config &config, Topology &topology) : settings_(config), topology_(topology)
	{
		topology.answers_return = true;
		for (const Link &link : topology.links)
			rules_.emplace_back(uint32_t(rules_.size() + 1), link.ps_per_byte, settings_);
	}

	/* A packet stands at a port. */
	template <class Queue> void pass(RatedPacket *packet, uint32_t at, Time now, const Queue &queue)
	{
		auto &flow = *static_cast<typename Rule::Part *>(packet->of);

		if (!packet->to_sender) {
			rules_[at].out(*packet, flow, now, queue.bytes());
			if (!packet->hop && packet->type == Type::DATA && packet->paused_by && flow.is_whole) {
				flow.paused_by = packet->paused_by;
				flow.stopped_at = now;
			}
		} else if (packet->hop) {
			back(*packet);
		}
	}

	/* An ACK has come over a link: by which its data left, the sender's own in the end. */
	void back(RatedPacket &packet)
	{
		rules_[topology_.back_port(packet)].back(packet);
	}

	/* Brings near what a packet meets that will stand at this port, or has come back to its sender. */
	void fetch(const Packet &packet, uint32_t at) const
	{
		const Rule *rule = &rules_[packet.to_sender ? topology_.back_port(packet) : at];

		for (size_t i = 0; i < sizeof(Rule); i += 64)
			__builtin_prefetch(reinterpret_cast<const char *>(rule) + i);
	}

      private:
	const typename Rule::Settings settings_;
	const Topology &topology_;
	std::vector<Rule> rules_;
};

} // namespace sim

#endif
