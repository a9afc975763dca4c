/*
 * Hosts whose switches say at which rate they send: the transport under PDQ (SIGCOMM'12, sections 3.1, 3.2 and 6), RCP,
 * D3.
 *
 * Sender. A packet without data goes first (SYN). Data leaves at the granted rate, evenly. Who has no rate asks again by
 * a packet without data: when the last was answered and the least round trip is over (unanswered: two average ones), or
 * after `probe_gap`, if links say longer; with a rate too, after SLOW of them. Each packet's header has the sender's
 * variables and its full rate, that of its own link. The round trip is averaged (1/8). A packet without data (TERM) tells
 * links of the end. A packet that has not been acknowledged `timeout_ps` after it left, three average round trips at
 * least, goes again, before new ones ("timer for in-flight packets").
 * Early termination (`terminates`; D3's quenching). A flow that is past its deadline, or would be at full rate, ends; under
 * PDQ also one that is paused within a round trip of it.
 * Criticality: schemes/criticality.h.
 * Receiver. Each packet goes back as its own ACK, header and all.
 * M-PDQ (PARTS > 1). A flow has several parts, each on a path of its own; to links each is a flow. Whichever has a rate
 * and is free takes the next packet: what a paused part would have sent goes to those that send.
 *
 * A sender's own link is in its host: when that pauses a flow that sends, the sender stops at once, and what older ACKs
 * grant counts no longer. Told by ACKs alone, it sent on for a round trip, behind its own queue, which lengthened that
 * round trip. The paper says nothing of several flows of one sender. Parts of one flow are told by ACKs: they take turns,
 * and each would leave the link idle until the next one is told that it may begin.
 *
 * Choices: PDQ's headers tell the least round trip that was measured, and not the average: with the average a queue
 * lengthens what early start and the rate controller go by, and so feeds itself (2 MB of queue where a core is short).
 * A paused flow has one question on its way: several filled links where a round trip is short, and were answered by what
 * had been. "Left" is what has not been sent, for it is this that early start waits for; a part's is its share among those
 * that send, while all parts are as critical as the whole flow's rest, a paused one a round trip less: where it shares a link
 * with one that sends, the newer word of the two would always be the more critical one, and both would be accepted. D3
 * wants the rest to be there a round trip before its deadline. A flow of several parts is hopeless if it would be late
 * at full rate on all of them.
 */
#ifndef QCLIMB_SIM_SCHEMES_RATED_H
#define QCLIMB_SIM_SCHEMES_RATED_H

#include "core/flight.h"
#include "core/scheme.h"
#include "core/window.h"
#include "links/d3.h"
#include "links/pdq.h"
#include "links/rcp.h"
#include "queues/strict.h"
#include "schemes/criticality.h"

#include <array>

namespace sim
{

template <class Rule, uint32_t PARTS = 1> class Rated
{
      public:
	using Queue = StrictQueue;
	using Packet = RatedPacket;
	using Links = RatedLinks<Rule>;
	using Net = Network<Queue, Packet, Links>;

	struct Part : Rule::Part {
		uint32_t last_bytes_sent = 0; /* of the last packet, on the wire */
		uint64_t rate = 0;
		Time rtt = 0, least_rtt = NEVER, probe_gap = 0;
		Time sent_at = 0, data_at = -1; /* the last packet, the last with data; -1: none yet */
		Time answered_at = -1; /* when the last one that was answered had left */
		Time asked_at = -1; /* D3's last request */
	};

	struct Flow : FlowBase {
		Window known; /* sender: what has arrived; its first is the cumulative number */
		Window arrived; /* receiver */
		uint32_t next = 0; /* the next packet that has not been sent */
		Flight flight; /* what has been sent, until it is known or has to go again */
		Time paused = 0, paused_since = 0; /* so far without a rate; -1: it has one */
		std::array<Part, PARTS> parts;
	};

	Rated(const Config &config, Net &network)
	    : network_(network), payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      ps_per_byte_(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE)),
	      full_(uint64_t(SECOND / ps_per_byte_)), rtt_ps_(config.number("rtt_ps", 1, SECOND)),
	      timeout_ps_(config.number("timeout_ps", 1, MOST_PS)), terminates_(config.flag("terminates")),
	      terminates_paused_(terminates_ && config.flag("terminates_paused")),
	      parts_(config.count("subflows", 1, PARTS)), criticality_(config)
	{
	}

	void start(Flow &flow)
	{
		flow.paused_since = network_.now;
		for (uint32_t n = 0; n < parts_; n++) {
			flow.parts[n].is_whole = parts_ == 1;
			flow.parts[n].rtt = rtt_ps_;
			send_header(flow, n, Type::PROBE);
		}
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
		packet->probe_gap = 0;
		network_.launch(packet);
	}

	void at_sender(Flow &flow, Packet *ack)
	{
		Part &part = flow.parts[ack->part];

		network_.links.back(*ack);
		part.answered_at = std::max(part.answered_at, ack->sent);
		part.rtt += (network_.now - ack->sent - part.rtt) / 8;
		part.least_rtt = std::min(part.least_rtt, network_.now - ack->sent);
		if (ack->sent > part.stopped_at) {
			part.rate = ack->rate;
			part.paused_by = ack->paused_by;
			part.probe_gap = ack->probe_gap;
		}
		mind_pause(flow);
		if (ack->seq >= flow.known.first() && ack->seq != NO_PACKET)
			flow.known.add(ack->seq);
		flow.known.advance_to(ack->cumulative);
		network_.release(ack);
		if (flow.known.first() == flow.packets) {
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
	static constexpr uint32_t NO_PACKET = UINT32_MAX;
	static constexpr Time SLOW = 8;
	static constexpr uint64_t STEP = Criticality::STEP_BYTES;

	/* Does what is due now, and sets the timer for what is due next. */
	void go_on(Flow &flow)
	{
		const Time now = network_.now;

		if (terminates_ && is_hopeless(flow)) {
			end(flow);
			return;
		}
		Time next = NEVER;
		for (uint32_t n = 0; n < parts_; n++) {
			const Part &part = flow.parts[n];
			if (flow.next >= flow.packets && overdue_at(flow) > now)
				break;
			if (part.rate && now >= free_at(part))
				send_data(flow, n);
			else if (now >= part.sent_at + gap(part))
				send_header(flow, n, Type::PROBE);
			next = std::min(next, part.sent_at + gap(part));
			next = part.rate ? std::min(next, free_at(part)) : next;
		}
		const Time overdue = overdue_at(flow);
		next = overdue > now ? std::min(next, overdue) : next;
		if (terminates_ && flow.due != NEVER &&
		    flow.received < 0) /* else it would look every ps until its ACK */
			next = std::min(next, std::max(flow.due, now) + 1);
		network_.set_timer(&flow, std::max(next, now + 1));
	}

	uint32_t sending(const Flow &flow) const
	{
		uint32_t found = 0;

		for (uint32_t n = 0; n < parts_; n++)
			found += flow.parts[n].rate > 0;
		return found;
	}

	/* How long a flow has had no rate. */
	Time paused(const Flow &flow) const
	{
		return flow.paused + (flow.paused_since < 0 ? 0 : network_.now - flow.paused_since);
	}

	void mind_pause(Flow &flow) const
	{
		const bool is_paused = !sending(flow);

		if (!is_paused && flow.paused_since >= 0) {
			flow.paused = paused(flow);
			flow.paused_since = -1;
		} else if (is_paused && flow.paused_since < 0) {
			flow.paused_since = network_.now;
		}
	}

	/* The longest round trip of its parts. */
	Time rtt(const Flow &flow) const
	{
		Time most = 0;

		for (uint32_t n = 0; n < parts_; n++)
			most = std::max(most, flow.parts[n].rtt);
		return most;
	}

	/* When the oldest packet that is not known goes again; NEVER: all are known. */
	Time overdue_at(Flow &flow) const
	{
		while (!flow.flight.empty() && is_known(flow, flow.flight.oldest().seq))
			flow.flight.pop();
		return flow.flight.empty() ? NEVER : flow.flight.oldest().at + std::max(timeout_ps_, 3 * rtt(flow));
	}

	static bool is_known(const Flow &flow, uint32_t seq)
	{
		return seq < flow.known.first() || flow.known.has(seq);
	}

	/* When the last packet's time at the granted rate is over. */
	Time free_at(const Part &part) const
	{
		if (part.data_at < 0)
			return network_.now;
		return part.data_at + Time(part.last_bytes_sent * uint64_t(SECOND) / part.rate);
	}

	/* Who has sent nothing for so long asks again; with a rate, one that has become far too low. */
	static Time gap(const Part &part)
	{
		const bool is_answered = part.answered_at >= part.sent_at;

		if (part.rate)
			return SLOW * part.rtt;
		return std::max(is_answered ? std::min(part.rtt, part.least_rtt) : 2 * part.rtt, part.probe_gap);
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
		return now > flow.due || now + left(flow) / parts_ > flow.due ||
		       (terminates_paused_ && !sending(flow) && flow.next < flow.packets && now + rtt(flow) > flow.due);
	}

	/* D3: enough for the deadline. */
	uint64_t wanted(const Flow &flow, const Part &part) const
	{
		if (flow.due == NEVER)
			return 0;
		const Time until = flow.due - network_.now - part.rtt;
		const Time rest = left(flow);

		if (rest >= until)
			return full_;
		return uint64_t(static_cast<unsigned __int128>(full_) * uint64_t(rest) / uint64_t(until)) + 1;
	}

	void send_data(Flow &flow, uint32_t part)
	{
		const bool is_again = overdue_at(flow) <= network_.now;
		const uint32_t seq = is_again ? flow.flight.oldest().seq : flow.next;
		Packet *packet = make(flow, part, Type::DATA);

		if (is_again) {
			flow.flight.pop();
			flow.timeouts++;
		} else {
			flow.next++;
		}
		flow.flight.push(seq, network_.now);
		packet->seq = seq;
		packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
		flow.parts[part].last_bytes_sent = packet->wire_bytes;
		flow.parts[part].data_at = network_.now;
		network_.launch(packet);
		if (flow.parts[part].stopped_at == network_.now) {
			flow.parts[part].rate = 0;
			mind_pause(flow);
		}
	}

	void send_header(Flow &flow, uint32_t part, Type type)
	{
		Packet *packet = make(flow, part, type);

		packet->seq = NO_PACKET;
		packet->wire_bytes = header_;
		network_.launch(packet);
	}

	Packet *make(Flow &flow, uint32_t n, Type type)
	{
		Packet *packet = network_.make(&flow);
		Part &part = flow.parts[n];
		const Time rest = left(flow), sent = time_of(uint64_t(flow.next) * payload_ / STEP * STEP);
		const uint32_t others = PARTS > 1 ? sending(flow) + (part.rate == 0) : 1;

		packet->type = type;
		packet->part = uint8_t(n);
		packet->id = flow.index * parts_ + n;
		packet->of = &part;
		packet->counted = uint32_t(__builtin_ctz(~part.counted_at));
		packet->rate = full_;
		packet->paused_by = part.paused_by;
		packet->due = criticality_.due(flow.due);
		packet->left = rest / others;
		packet->rtt = Rule::BY_LEAST_RTT && part.least_rtt != NEVER ? part.least_rtt : part.rtt;
		packet->sent = part.sent_at = network_.now;
		if (!Rule::ASKS) {
			const Time behind = PARTS > 1 && !part.rate ? part.rtt : 0; /* those of its parts that send */
			packet->key = criticality_.number(flow.index, rest + behind, sent, paused(flow));
		} else if (part.asked_at < 0 || network_.now >= part.asked_at + part.rtt) {
			packet->asks = true;
			packet->wanted = wanted(flow, part);
			part.asked_at = network_.now;
		}
		return packet;
	}

	void end(Flow &flow)
	{
		for (uint32_t n = 0; n < parts_; n++)
			send_header(flow, n, Type::TERM);
		network_.finish(&flow);
	}

	Net &network_;
	const uint32_t payload_, header_;
	const Time ps_per_byte_;
	const uint64_t full_;
	const Time rtt_ps_, timeout_ps_;
	const bool terminates_, terminates_paused_;
	const uint32_t parts_;
	const Criticality criticality_;
};

static const Scheme PDQ_SCHEME("pdq", [](const Config &config) {
	const bool is_whole = config.count("subflows", 1, MAX_PARTS) == 1;
	return is_whole ? run_as<Run<Rated<PdqRule>>>(config) : run_as<Run<Rated<PdqRule, MAX_PARTS>>>(config);
});

static const Scheme RCP_SCHEME("rcp", run_as<Run<Rated<RcpRule>>>);
static const Scheme D3_SCHEME("d3", run_as<Run<Rated<D3Rule>>>);

} // namespace sim

#endif
