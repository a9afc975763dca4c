/*
 * PDQ's switch (SIGCOMM'12, section 3.3): Algorithms 1 to 3 on each link. The most critical flow has the link.
 *
 * A link remembers its most critical flows: twice as many as are sending, at least LEAST, at most `list_flows`. More
 * critical is who is due earlier, then who has less left (or what the sender puts in its place), then who came first.
 *   Out (Algorithm 1). A flow that another link pauses is forgotten here. One that is not remembered takes a place if it is
 *     more critical than the last; else it waits, or, where memory is what bounds the list, gets its share of what
 *     remembered flows leave, as in RCP. One that is remembered gets what more critical ones leave (Algorithm 2), or is
 *     paused. Early start: of more critical flows those nearly done, less than `early_start` round trips each and
 *     together, take nothing.
 *   Back (Algorithm 3). Whom nobody paused has its rate here; a paused one has none, and asks again after
 *     `probe_tenths` / 10 round trips for each that is more critical (suppressed probing; never sooner than one: by the letter the first
 *     that waits would ask five times a round trip, which here made queues longer and mean FCTs no shorter).
 *   Dampening. Whom this link paused is not accepted for as long as the one that was accepted last takes at its full rate,
 *     `dampening` at most, the paper's "small period". Until its ACK is back it has no rate here, and would be counted for
 *     nothing; beyond its own time it would hold the link idle: with a round trip for all, a link began one flow of one
 *     packet a round trip, whatever early start allowed (VL2's sizes, 32,000 flows a second: 17 % late and not 0.1 %).
 *     Who comes anew, paused by nobody or by another link so far, is not accepted then if the accepted one is more critical:
 *     Algorithm 1 asks whether the flow "is not sending (P_i)", and a new one has no P_i. Were new ones to wait, the
 *     most critical flow would do so at one link after another (fat-tree, two flows a server with deadlines: 3.5 % late
 *     and not 1.3 %); were none to wait, a burst would begin together.
 *
 * Choices where the paper is silent: the period (the setting, in tenths of a round trip); LEAST; a rate of less than a
 * packet a round trip is none, since its flow would not hear of a better one in time, unless it is an eighth of the link's
 * (where a round trip is shorter than a packet, none would be enough); who is not remembered has the list's
 * length for its place; who has not been heard of for STALE round trips, its last packet lost, is forgotten. Only who is
 * remembered may begin: were what is left between two flows anybody's, it would be whose who asks first, and not the most
 * critical one's (over a tree, flows of 1 MB took 27 % longer).
 */
#ifndef QCLIMB_SIM_LINKS_PDQ_H
#define QCLIMB_SIM_LINKS_PDQ_H

#include "core/few.h"
#include "links/rated.h"

namespace sim
{

class alignas(64) PdqRule
{
      public:
	using Part = RatedPart;
	static constexpr bool ASKS = false; /* who sends, once a round trip, for what it wants */
	static constexpr bool BY_LEAST_RTT = true; /* of the two that senders measure; else the average */

	struct Settings {
		Time rtt;
		uint32_t early_start; /* 1024ths of a round trip */
		Time dampening, probe; /* tenths of a round trip */
		uint32_t list_flows;
		uint64_t packet_bytes;

		explicit Settings(const Config &config)
		    : rtt(config.number("rtt_ps", 1, SECOND)),
		      early_start(config.count("early_start_tenths", 0, 1000) * 1024 / 10),
		      dampening(config.count("dampening_tenths", 0, 1000)),
		      probe(config.count("probe_tenths", 0, 1000)),
		      list_flows(config.count("list_flows", 0, MOST_PACKETS)),
		      packet_bytes(config.count("payload_bytes", 1, MOST_PAYLOAD) +
				   config.count("header_bytes", 1, MOST_HEADER))
		{
		}
	};

	PdqRule(uint32_t id, Time ps_per_byte, const Settings &settings)
	    : settings_(settings), id_(id), link_(ps_per_byte, settings.rtt, BY_LEAST_RTT)
	{
	}

	void out(RatedPacket &packet, Part &flow, Time now, uint64_t queued)
	{
		if (link_.passed(packet, flow, now, queued))
			forget_stale(now);
		if (packet.type == Type::TERM || (packet.paused_by && packet.paused_by != id_)) {
			forget(packet.id);
			return;
		}
		const Time left = packet.left * 1024 / std::max<Time>(1, packet.rtt);
		const uint32_t rtts = uint32_t(std::min<Time>(left, UINT32_MAX));
		const Entry entry = { packet.due, packet.key, packet.id, 0, now, rtts, packet.paused_by };
		const uint32_t at = place(entry);
		if (at == list_.size()) {
			packet.rate = at_least_a_packet(std::min(packet.rate, fallback()));
			packet.paused_by = packet.rate ? 0 : id_;
			return;
		}
		Entry &mine = list_[at];
		const uint64_t rate = at_least_a_packet(std::min(packet.rate, available(at)));
		const bool is_sending = packet.type == Type::DATA;
		if (!rate || (!is_sending && is_damped(at, now))) {
			packet.paused_by = mine.paused_by = id_;
			return;
		}
		if (!is_sending && accepted_ != packet.id) {
			accepted_ = packet.id;
			damped_until_ = now + std::min(settings_.dampening * link_.rtt() / 10, packet.left);
		}
		packet.paused_by = 0;
		packet.rate = rate;
	}

	void back(RatedPacket &packet)
	{
		if (packet.paused_by && packet.paused_by != id_)
			forget(packet.id);
		if (packet.paused_by)
			packet.rate = 0;
		if (packet.paused_by && accepted_ == packet.id)
			damped_until_ = -1; /* elsewhere it was not */
		const uint32_t at = find(packet.id);
		if (at < list_.size()) {
			list_[at].paused_by = packet.paused_by;
			list_[at].rate = packet.rate;
		}
		if (at < list_.size() || packet.paused_by == id_)
			packet.probe_gap = std::max(packet.probe_gap,
						    settings_.probe * link_.rtt() * Time(std::min(at, FAR)) / 10);
	}

      private:
	struct Entry {
		Time due, key;
		uint64_t flow;
		uint64_t rate;
		Time heard;
		uint32_t left; /* of its round trips, 1024ths; or more than it can tell */
		uint32_t paused_by;

		bool operator<(const Entry &other) const
		{
			if (due != other.due)
				return due < other.due;
			return key != other.key ? key < other.key : flow < other.flow;
		}
	};

	static constexpr uint32_t LEAST = 2, FAR = 1000; /* places; products of times stay within 63 bits */
	static constexpr Time STALE = 64;
	static constexpr uint64_t ENOUGH = 8; /* of a link's rate this part is never too little */

	uint32_t find(uint64_t flow) const
	{
		uint32_t at = 0;

		while (at < list_.size() && list_[at].flow != flow)
			at++;
		return at;
	}

	void forget(uint64_t flow)
	{
		const uint32_t at = find(flow);

		if (at < list_.size())
			list_.erase(at);
	}

	void forget_stale(Time now)
	{
		const Time since = now - STALE * link_.rtt();
		const auto is_stale = [since](const Entry &entry) { return entry.heard < since; };

		list_.cut(uint32_t(std::remove_if(list_.begin(), list_.end(), is_stale) - list_.begin()));
	}

	uint32_t room() const
	{
		const auto sends = [](const Entry &entry) { return entry.rate > 0; };
		const uint32_t twice = 2 * uint32_t(std::count_if(list_.begin(), list_.end(), sends));
		const uint32_t most = settings_.list_flows ? settings_.list_flows : UINT32_MAX;

		return std::min(most, std::max(LEAST, twice));
	}

	/* Where the flow now stands; the list's length: nowhere. */
	uint32_t place(Entry entry)
	{
		uint32_t at = find(entry.flow);

		if (at < list_.size()) {
			entry.rate = list_[at].rate;
			entry.paused_by = list_[at].paused_by;
			if (keeps(at, entry)) {
				list_[at] = entry;
			} else {
				list_.erase(at);
				at = enter(entry);
			}
		} else if (list_.size() >= room() && !(entry < list_[list_.size() - 1])) {
			return list_.size();
		} else {
			at = enter(entry);
		}
		list_.cut(std::min(list_.size(), room()));
		return std::min(at, list_.size());
	}

	/* Whether the flow that had this place keeps it. */
	bool keeps(uint32_t at, const Entry &entry) const
	{
		return (at == 0 || !(entry < list_[at - 1])) && (at + 1 == list_.size() || entry < list_[at + 1]);
	}

	uint32_t enter(const Entry &entry)
	{
		const uint32_t at = uint32_t(std::upper_bound(list_.begin(), list_.end(), entry) - list_.begin());

		list_.insert(at, entry);
		return at;
	}

	/* What more critical flows than the one at this place leave (Algorithm 2). */
	uint64_t available(uint32_t at) const
	{
		uint32_t nearly = 0;
		uint64_t taken = 0;

		for (uint32_t i = 0; i < at; i++) {
			if (list_[i].left < settings_.early_start && nearly < settings_.early_start)
				nearly += list_[i].left;
			else
				taken += list_[i].rate;
			if (taken >= link_.capacity())
				return 0;
		}
		return link_.capacity() - taken;
	}

	/* The share of a flow that is not remembered, for want of memory; else it has none. */
	uint64_t fallback() const
	{
		uint64_t taken = 0;

		if (list_.size() != settings_.list_flows)
			return 0;
		for (const Entry &entry : list_)
			taken += entry.rate;
		const uint64_t others = link_.flows() > list_.size() ? link_.flows() - list_.size() : 1;
		return taken < link_.capacity() ? (link_.capacity() - taken) / others : 0;
	}

	uint64_t at_least_a_packet(uint64_t rate) const
	{
		const bool is_enough = rate >= link_.full() / ENOUGH ||
				       rate >= settings_.packet_bytes * uint64_t(SECOND / link_.rtt());

		return is_enough ? rate : 0;
	}

	bool is_damped(uint32_t at, Time now) const
	{
		if (accepted_ == list_[at].flow || now >= damped_until_)
			return false;
		return list_[at].paused_by || at > find(accepted_);
	}

	const Settings &settings_; /* of all links */
	uint32_t id_;
	LinkRate link_;
	uint64_t accepted_ = UINT64_MAX; /* the flow that did not send and was accepted last */
	Time damped_until_ = -1;
	Few<Entry, 3> list_; /* the most critical first; within a link's memory there are seldom more */
};

} // namespace sim

#endif
