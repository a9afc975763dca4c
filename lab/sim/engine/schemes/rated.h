/*
 * Hosts whose switches say at which rate they send: the transport under PDQ (SIGCOMM'12, sections 3.1 and 3.2), RCP, D3.
 *
 * Sender. A packet without data goes first (SYN). Data leaves at the granted rate, evenly. Who has no rate asks again by
 * a packet without data: after a round trip, or after `probe_gap`, if links say longer; with a rate too, after SLOW of them. Each packet's header has the
 * sender's variables and its full rate, that of its own link. The round trip is averaged (1/8). A packet without data
 * (TERM) tells links of the end. What has not been acknowledged `timeout_ps` after the last packet or news goes again, from
 * the first gap on.
 * Early termination (`terminates`; D3's quenching). A flow that is past its deadline, or would be at full rate, ends; under
 * PDQ also one that is paused within a round trip of it.
 * Criticality goes by what is left to send (`size`), by a number drawn once (`random`), or by what was sent, in steps of
 * 50 KB (`sent`).
 * Receiver. Each packet goes back as its own ACK, header and all.
 *
 * Choices: PDQ's headers tell the least round trip that was measured, and not the average: with the average a queue lengthens
 * what early start and the rate controller go by, and so feeds itself (2 MB of queue where a core is short). "Left" is what has not been sent, for it is this that early start waits for. D3 wants the rest to be there a
 * round trip before its deadline.
 */
#ifndef QCLIMB_SIM_SCHEMES_RATED_H
#define QCLIMB_SIM_SCHEMES_RATED_H

#include "core/network.h"
#include "core/window.h"
#include "links/rated.h"
#include "queues/strict.h"

namespace sim
{

template <class Rule> class Rated
{
      public:
	using Queue = StrictQueue;
	using Packet = RatedPacket;
	using Links = RatedLinks<Rule>;
	using Net = Network<Queue, Packet, Links>;

	struct Flow : RatedFlow {
		Window known; /* sender: what has arrived; its first is the cumulative number */
		Window arrived; /* receiver */
		uint32_t next = 0, last_bytes_sent = 0; /* the next packet; of the last one, on the wire */
		uint32_t paused_by = 0;
		uint64_t rate = 0;
		Time rtt = 0, least_rtt = NEVER, probe_gap = 0;
		Time sent_at = 0, data_at = -1; /* the last packet, the last with data; -1: none yet */
		Time asked_at = -1; /* D3's last request */
		Time news_at = 0;
	};

	Rated(const Config &config, Net &network)
	    : network_(network), payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      ps_per_byte_(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE)),
	      full_(uint64_t(SECOND / ps_per_byte_)), rtt_ps_(config.number("rtt_ps", 1, SECOND)),
	      timeout_ps_(config.number("timeout_ps", 1, MOST_PS)), terminates_(config.flag("terminates")),
	      terminates_paused_(terminates_ && config.flag("terminates_paused")),
	      key_(Key(config.choice("criticality", { "size", "random", "sent" }))),
	      seed_(uint64_t(config.number("seed", 0, INT64_MAX)))
	{
	}

	void start(Flow &flow)
	{
		flow.rtt = rtt_ps_;
		flow.news_at = network_.now;
		send_header(flow, Type::PROBE);
		go_on(flow);
	}

	void at_receiver(Flow &flow, Packet *packet)
	{
		if (packet->type == Type::TERM) {
			network_.release(packet);
			return;
		}
		if (packet->type == Type::DATA) {
			if (packet->seq < flow.arrived.first() || !flow.arrived.add(packet->seq))
				flow.duplicates++;
			flow.arrived.advance();
			if (flow.received < 0 && flow.arrived.first() == flow.packets)
				flow.received = network_.now;
		}
		packet->type = Type::ACK; /* the packet goes back as its own ACK */
		packet->to_sender = true;
		packet->wire_bytes = header_;
		packet->cumulative = flow.arrived.first();
		network_.launch(packet);
	}

	void at_sender(Flow &flow, Packet *ack)
	{
		network_.links.home(*ack);
		flow.rtt += (network_.now - ack->sent - flow.rtt) / 8;
		flow.least_rtt = std::min(flow.least_rtt, network_.now - ack->sent);
		flow.rate = ack->rate;
		flow.paused_by = ack->paused_by;
		flow.probe_gap = ack->probe_gap;
		if (ack->seq >= flow.known.first() && ack->seq != NO_PACKET)
			flow.known.add(ack->seq);
		const uint32_t cumulative = ack->cumulative;
		network_.release(ack);
		flow.next = std::max(flow.next, cumulative);
		if (cumulative > flow.known.first()) {
			flow.known.advance_to(cumulative);
			flow.news_at = network_.now;
		}
		if (cumulative == flow.packets) {
			flow.acked = network_.now;
			end(flow);
			return;
		}
		go_on(flow);
	}

	void timeout(Flow &flow)
	{
		go_on(flow);
	}

      private:
	enum class Key { SIZE, RANDOM, SENT };
	static constexpr uint32_t NO_PACKET = UINT32_MAX;
	static constexpr Time SLOW = 8;
	static constexpr uint64_t STEP_BYTES = 50'000; /* of what was sent, before criticality changes */

	/* Does what is due now, and sets the timer for what is due next. */
	void go_on(Flow &flow)
	{
		const Time now = network_.now;

		if (terminates_ && is_hopeless(flow)) {
			end(flow);
			return;
		}
		if (flow.next > flow.known.first())
			rewind(flow);
		Time next = NEVER;
		skip_known(flow);
		if (flow.next < flow.packets) {
			if (flow.rate && now >= free_at(flow))
				send_data(flow);
			else if (now >= flow.sent_at + gap(flow))
				send_header(flow, Type::PROBE);
			skip_known(flow);
			next = flow.sent_at + gap(flow);
			next = flow.rate ? std::min(next, free_at(flow)) : next;
		}
		if (flow.next > flow.known.first())
			next = std::min(next, silent_until(flow));
		if (terminates_ && flow.due != NEVER)
			next = std::min(next, std::max(flow.due, now) + 1);
		network_.set_timer(&flow, std::max(next, now + 1));
	}

	/* What was sent and has not been heard of for too long goes again. */
	void rewind(Flow &flow)
	{
		if (network_.now < silent_until(flow))
			return;
		flow.timeouts++;
		flow.next = flow.known.first();
		flow.news_at = network_.now;
	}

	Time silent_until(const Flow &flow) const
	{
		return std::max(flow.news_at, flow.data_at) + std::max(timeout_ps_, 3 * flow.rtt);
	}

	void skip_known(Flow &flow) const
	{
		while (flow.next < flow.packets && flow.known.has(flow.next))
			flow.next++;
	}

	/* When the last packet's time at the granted rate is over. */
	Time free_at(const Flow &flow) const
	{
		if (flow.data_at < 0)
			return network_.now;
		return flow.data_at + Time(flow.last_bytes_sent * uint64_t(SECOND) / flow.rate);
	}

	/* Who has sent nothing for so long asks again; with a rate, one that has become far too low. */
	Time gap(const Flow &flow) const
	{
		return flow.rate ? SLOW * flow.rtt : std::max(flow.rtt, flow.probe_gap);
	}

	/* What the rest of the flow takes at full rate. */
	Time left(const Flow &flow) const
	{
		const uint64_t sent = uint64_t(flow.next) * payload_;
		const uint64_t packets = flow.packets - std::min(flow.packets, flow.next);

		return sent >= flow.size_bytes ? 0 : time_of(flow.size_bytes - sent + packets * header_);
	}

	/* Of bytes at full rate; of more than anybody sends, a time that can still be multiplied. */
	Time time_of(uint64_t bytes) const
	{
		return Time(std::min(bytes, uint64_t(MOST_TIME / 2048 / ps_per_byte_))) * ps_per_byte_;
	}

	bool is_hopeless(const Flow &flow) const
	{
		const Time now = network_.now;

		if (flow.due == NEVER || flow.received >= 0)
			return false;
		return now > flow.due || now + left(flow) > flow.due ||
		       (terminates_paused_ && !flow.rate && flow.next < flow.packets && now + flow.rtt > flow.due);
	}

	/* D3: enough for the deadline. */
	uint64_t wanted(const Flow &flow) const
	{
		if (flow.due == NEVER)
			return 0;
		const Time until = flow.due - network_.now - flow.rtt;
		const Time rest = left(flow);

		if (rest >= until)
			return full_;
		return uint64_t(static_cast<unsigned __int128>(full_) * uint64_t(rest) / uint64_t(until)) + 1;
	}

	Time key(const Flow &flow) const
	{
		switch (key_) {
		case Key::RANDOM:
			return Time(mix(flow.index, seed_) >> 2);
		case Key::SENT:
			return time_of(uint64_t(flow.next) * payload_ / STEP_BYTES * STEP_BYTES);
		default:
			return left(flow);
		}
	}

	void send_data(Flow &flow)
	{
		const uint32_t seq = flow.next;
		Packet *packet = make(flow, Type::DATA);

		packet->seq = seq;
		packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
		flow.last_bytes_sent = packet->wire_bytes;
		flow.data_at = network_.now;
		flow.next++;
		network_.launch(packet);
	}

	void send_header(Flow &flow, Type type)
	{
		Packet *packet = make(flow, type);

		packet->seq = NO_PACKET;
		packet->wire_bytes = header_;
		network_.launch(packet);
	}

	Packet *make(Flow &flow, Type type)
	{
		Packet *packet = network_.make(&flow);

		packet->type = type;
		packet->rate = full_;
		packet->paused_by = flow.paused_by;
		packet->due = flow.due;
		packet->left = left(flow);
		packet->key = key(flow);
		packet->rtt = Rule::BY_LEAST_RTT && flow.least_rtt != NEVER ? flow.least_rtt : flow.rtt;
		packet->sent = flow.sent_at = network_.now;
		if (flow.asked_at < 0 || network_.now >= flow.asked_at + flow.rtt) {
			packet->asks = true;
			packet->wanted = wanted(flow);
			flow.asked_at = network_.now;
		}
		return packet;
	}

	void end(Flow &flow)
	{
		send_header(flow, Type::TERM);
		network_.finish(&flow);
	}

	Net &network_;
	const uint32_t payload_, header_;
	const Time ps_per_byte_;
	const uint64_t full_;
	const Time rtt_ps_, timeout_ps_;
	const bool terminates_, terminates_paused_;
	const Key key_;
	const uint64_t seed_;
};

} // namespace sim

#endif
