/*
 * pFabric (SIGCOMM'13, section 4.3): hosts send at line rate and leave it to the ports whose packets wait or go.
 *
 * Sender. The window begins at `initial_window` packets and grows by one with every ACK that moves the cumulative
 * number, up to `max_window` (after a timeout: by one with each such ACK below half the window of before, then by one a
 * window). Packets that the receiver holds beyond a gap do not count against it. A packet's rank is the bytes that
 * are left: the flow's size less what is acknowledged, cumulatively or beyond a gap. No duplicate-ACK rule: losses are found by
 * the timer alone, `timeout_ps` after the last ACK that was news. It then sets the window to one and sends what is not
 * known to have arrived, from the first gap on.
 * Probe mode: after `probe_after` timeouts in a row the flow sends, each timeout, one packet without payload; its ACK
 * brings the flow back with a window of one. 0 turns it off (as in YAPS).
 * With `sender_sees_arrivals` the sender knows at once what the receiver holds, when it chooses what to send again (a
 * simplification of YAPS, whose table this engine is held to); without, it knows what ACKs have told: 0.5 % more packets.
 * Receiver. Each packet is acknowledged: cumulative number, the packet that caused it, the count beyond the gap.
 *
 * With forecasts (`sizes_are_forecasts`), ranks come from the forecast instead of the size; a flow that has sent more
 * than was forecast has rank 1 (nothing left, says the forecast): this is what pFabric does with a wrong number.
 * With weighted groups of flows (section 7 of the paper) ports are GroupedRanks, and hosts the same.
 */
#ifndef QCLIMB_SIM_SCHEMES_PFABRIC_H
#define QCLIMB_SIM_SCHEMES_PFABRIC_H

#include "core/scheme.h"
#include "core/window.h"
#include "queues/groups.h"

#include <algorithm>

namespace sim
{

struct PfabricPacket : Packet {
	uint32_t sacked = 0; /* in an ACK: packets that have arrived beyond the first gap */

	using Packet::Packet;
};
static_assert(sizeof(PfabricPacket) == 64, "a line");

template <class Ports> class PfabricOver
{
      public:
	using Queue = Ports;
	using Packet = PfabricPacket;
	using Net = Network<Queue, Packet>;

	struct Flow : FlowBase {
		Window known; /* sender: what has arrived; its first is the cumulative number */
		Window arrived; /* receiver */
		uint32_t next = 0, window = 0, slow_start_until = UINT32_MAX, grown = 0, sacked = 0,
			 timeouts_in_row = 0, idle = 0; /* of these, those at which there was nothing to send */
	};

	PfabricOver(const Config &config, Net &network)
	    : network_(network), groups_(uint32_t(config.numbers("group_weights", MOST_WEIGHT).size())),
	      payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      initial_(config.count("initial_window", 1, MOST_PACKETS)),
	      most_(config.count("max_window", 1, MOST_PACKETS)),
	      probe_after_(config.count("probe_after", 0, MOST_PACKETS)),
	      timeout_ps_(config.number("timeout_ps", 1, MOST_PS)), forecasts_(config.flag("sizes_are_forecasts")),
	      sees_arrivals_(config.flag("sender_sees_arrivals"))
	{
	}

	void start(Flow &flow)
	{
		if (groups_ && flow.group >= groups_)
			refuse("flow " + std::to_string(flow.index) + ": group is " + std::to_string(flow.group) +
			       ", expected below " + std::to_string(groups_) + ", the number of group_weights");
		flow.window = initial_;
		send_window(flow);
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

	void at_receiver(Flow &flow, Packet *packet)
	{
		if (packet->type == Type::DATA) {
			if (packet->seq < flow.arrived.first() || !flow.arrived.add(packet->seq))
				flow.duplicates++;
			flow.arrived.advance();
			if (flow.received < 0 && flow.arrived.first() == flow.packets)
				flow.received = network_.now;
		}
		packet->type = Type::ACK; /* the packet goes back as its own ACK */
		packet->to_sender = true;
		packet->rank = 0;
		packet->wire_bytes = header_;
		packet->cumulative = flow.arrived.first();
		packet->sacked = flow.arrived.count();
		network_.launch(packet);
	}

	void at_sender(Flow &flow, Packet *ack)
	{
		const uint32_t cumulative = ack->cumulative;

		flow.sacked = ack->sacked;
		if (ack->seq >= flow.known.first() && ack->seq != NO_PACKET)
			flow.known.add(ack->seq);
		if (flow.timeouts_in_row && ack->seq == NO_PACKET && flow.window == 0)
			leave_probing(flow);
		network_.release(ack);
		flow.next = std::max(flow.next, cumulative);
		if (cumulative <= flow.known.first())
			return;
		flow.known.advance_to(cumulative);
		flow.timeouts_in_row = flow.idle = 0;
		if (cumulative == flow.packets) {
			flow.acked = network_.now;
			network_.finish(&flow);
			return;
		}
		grow(flow);
		send_window(flow);
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

	void timeout(Flow &flow)
	{
		flow.timeouts++;
		flow.timeouts_in_row++;
		flow.slow_start_until = std::max(2u, flow.window / 2);
		if (probe_after_ && flow.timeouts_in_row >= probe_after_) {
			flow.window = 0;
			probe(flow);
		} else {
			flow.window = 1;
			flow.next = flow.known.first();
			const uint32_t sent = flow.sent;
			send_window(flow);
			flow.idle = flow.sent == sent ? flow.idle + 1 : 0;
			if (flow.idle >= LOST) /* all of the window has arrived, but ACKs were lost */
				probe(flow);
		}
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

      private:
	static constexpr uint32_t NO_PACKET = UINT32_MAX;
	static constexpr uint32_t LOST = 8; /* timeouts in a row: no ACK is in queues for as long */

	void grow(Flow &flow)
	{
		if (flow.window < flow.slow_start_until) {
			flow.window++;
		} else if (++flow.grown >= flow.window) {
			flow.grown = 0;
			flow.window++;
		}
		flow.window = std::min(flow.window, most_);
	}

	void send_window(Flow &flow)
	{
		const uint64_t end =
			std::min<uint64_t>(flow.packets, uint64_t(flow.known.first()) + flow.window + flow.sacked);

		for (; flow.next < end; flow.next++)
			if (!has_arrived(flow, flow.next))
				send(flow, flow.next);
	}

	bool has_arrived(const Flow &flow, uint32_t seq) const
	{
		if (sees_arrivals_)
			return seq < flow.arrived.first() || flow.arrived.has(seq);
		return flow.known.has(seq);
	}

	void send(Flow &flow, uint32_t seq)
	{
		Packet *packet = network_.make(&flow);

		packet->seq = seq;
		packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
		packet->rank = rank(flow);
		network_.launch(packet);
	}

	void probe(Flow &flow)
	{
		Packet *packet = network_.make(&flow);

		packet->type = Type::PROBE;
		packet->seq = NO_PACKET;
		packet->wire_bytes = header_;
		packet->rank = rank(flow);
		network_.launch(packet);
	}

	void leave_probing(Flow &flow)
	{
		flow.timeouts_in_row = 0;
		flow.window = 1;
		flow.next = flow.known.first();
		send_window(flow);
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

	uint32_t rank(const Flow &flow) const
	{
		const uint64_t size = forecasts_ ? flow.forecast_bytes : flow.size_bytes;
		const uint64_t gone = (uint64_t(flow.known.first()) + flow.sacked) * payload_;

		return gone >= size ? 1 : uint32_t(std::min<uint64_t>(size - gone, UINT32_MAX));
	}

	Net &network_;
	const uint32_t groups_; /* 0: none */
	const uint32_t payload_, header_, initial_, most_, probe_after_;
	const Time timeout_ps_;
	const bool forecasts_, sees_arrivals_;
};

using Pfabric = PfabricOver<PfabricQueue>;

static const Scheme PFABRIC_SCHEME("pfabric", [](const Config &config) {
	const bool is_one = config.numbers("group_weights", MOST_WEIGHT).empty();
	return is_one ? run_as<Run<Pfabric>>(config) : run_as<Run<PfabricOver<GroupedRanks>>>(config);
});

} // namespace sim

#endif
