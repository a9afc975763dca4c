/*
 * Homa (SIGCOMM'18): receivers schedule.
 *
 * Sender. The first `rtt_packets` of a message go unscheduled, at once, at one of the first `unscheduled` priorities by the
 * message's size (`thresholds`: one fewer than these); the rest when granted, at the granted priority.
 * Receiver. Of the messages that it knows and has not granted to the end, the `overcommitment` with least left to come are
 * granted: each may have `rtt_packets` granted and not arrived. With k of them, the i-th shortest (from 0) uses scheduled
 * priority P - k + i, or P - S + i where k exceeds the S scheduled ones: shortest first, and the lowest levels, so that a shorter
 * newcomer finds one above. A data packet's arrival is when grants are made anew; grants travel at priority 0.
 * Losses. A message of which more is granted than arrived, and nothing arrives for `timeout_ps`, is asked for what is missing
 * (the first gap); if nothing ever arrived its sender begins again. What still waits in the sender's own port, behind shorter
 * messages, is not sent again (Homa's BUSY): else copies pile up there, and that is the port that is short already.
 * Buffers are meant to be large: a host's own port is without bound.
 * With forecasts, "left" and the unscheduled priority go by the forecast; a message that outgrows it has one packet left.
 *
 * Not modelled: requests and responses as pairs (a flow is one message), incast control, the sender's grant-free RPC aborts.
 */
#ifndef QCLIMB_SIM_SCHEMES_HOMA_H
#define QCLIMB_SIM_SCHEMES_HOMA_H

#include "core/network.h"
#include "core/window.h"
#include "queues/homa.h"

#include <qclimb/priority.h>

#include <algorithm>

namespace sim
{

class Homa
{
      public:
	using Queue = HomaQueue;
	using Packet = WidePacket;

	struct Flow : FlowBase {
		/* sender */
		uint32_t next = 0, may_send = 0, priority = 0;
		/* receiver */
		Window arrived;
		uint32_t granted = 0;
		bool is_known = false; /* stands among its receiver's messages */
	};

	Homa(const Config &config, Network<Queue, Packet> &network)
	    : network_(network), payload_(uint32_t(config.number("payload_bytes"))),
	      header_(uint32_t(config.number("header_bytes"))), rtt_packets_(uint32_t(config.number("rtt_packets"))),
	      priorities_(uint32_t(config.number("priorities"))), unscheduled_(uint32_t(config.number("unscheduled"))),
	      overcommitment_(uint32_t(config.number("overcommitment"))), timeout_ps_(config.number("timeout_ps")),
	      forecasts_(config.number("sizes_are_forecasts") != 0),
	      known_(size_t(config.number("leaves") * config.number("hosts_per_leaf")))
	{
		const std::vector<uint64_t> begin = config.numbers("thresholds");

		if (begin.size() + 1 != unscheduled_ || unscheduled_ >= priorities_)
			refuse("thresholds must be one fewer than unscheduled priorities, and these fewer than all");
		for (size_t i = 0; i < begin.size(); i++)
			threshold_[i + 1] = begin[i];
	}

	void start(Flow &flow)
	{
		flow.may_send = flow.granted = std::min(flow.packets, rtt_packets_);
		flow.priority = qclimb_priority_of(threshold_, unscheduled_, size(flow));
		send(flow);
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

	void at_receiver(Flow &flow, Packet *packet)
	{
		if (packet->seq < flow.arrived.first() || !flow.arrived.add(packet->seq))
			flow.duplicates++;
		flow.arrived.advance();
		network_.release(packet);
		if (flow.is_over)
			return;
		std::vector<Flow *> &known = known_[flow.target];
		if (!flow.is_known && flow.granted < flow.packets) {
			flow.is_known = true;
			known.push_back(&flow);
		}
		if (flow.arrived.first() == flow.packets) {
			if (flow.received < 0)
				flow.received = network_.now;
			answer(flow, Type::ACK, 0, 0, 0);
		}
		network_.set_timer(&flow, network_.now + timeout_ps_);
		grant(known);
	}

	void at_sender(Flow &flow, Packet *packet)
	{
		const Type type = packet->type;
		const uint32_t priority = packet->cumulative, from = packet->told_first, end = packet->told_end;

		network_.release(packet);
		if (type == Type::ACK) {
			flow.acked = network_.now;
			network_.finish(&flow);
		} else if (type == Type::GRANT) {
			flow.may_send = std::max(flow.may_send, end);
			flow.priority = priority;
			send(flow);
		} else {
			again(flow, from, end);
		}
	}

	void timeout(Flow &flow)
	{
		const uint32_t count = flow.arrived.first() + flow.arrived.count();

		network_.set_timer(&flow, network_.now + timeout_ps_);
		if (flow.received >= 0) {
			answer(flow, Type::ACK, 0, 0, 0);
		} else if (!count) {
			again(flow, 0, flow.next);
		} else if (flow.granted > count) {
			uint32_t end = flow.arrived.first() + 1;
			while (end < flow.granted && !flow.arrived.has(end))
				end++;
			answer(flow, Type::PROBE, 0, flow.arrived.first(), end);
			answer(flow, Type::GRANT, flow.priority, 0, flow.granted); /* the grant may be what was lost */
		}
	}

      private:
	uint64_t size(const Flow &flow) const
	{
		return forecasts_ ? flow.forecast_bytes : flow.size_bytes;
	}

	/* Packets left of the message, by its size as it is known, when so many are gone. */
	uint32_t left(const Flow &flow, uint32_t gone) const
	{
		const uint64_t all = forecasts_ ? (flow.forecast_bytes + payload_ - 1) / payload_ : flow.packets;

		return all > gone ? uint32_t(std::min<uint64_t>(all - gone, UINT32_MAX)) : 1;
	}

	void grant(std::vector<Flow *> &known)
	{
		known.erase(
			std::remove_if(known.begin(), known.end(), [](Flow *f) { return f->granted == f->packets; }),
			known.end());
		const uint32_t active = std::min(uint32_t(known.size()), overcommitment_);
		std::partial_sort(known.begin(), known.begin() + active, known.end(), [this](Flow *a, Flow *b) {
			const uint32_t of_a = left(*a, a->arrived.first() + a->arrived.count());
			const uint32_t of_b = left(*b, b->arrived.first() + b->arrived.count());
			return of_a != of_b ? of_a < of_b : a->index < b->index;
		});
		const uint32_t scheduled = priorities_ - unscheduled_;
		for (uint32_t i = 0; i < active; i++) {
			Flow &flow = *known[i];
			const uint32_t count = flow.arrived.first() + flow.arrived.count();
			const uint32_t end = std::min(flow.packets, count + rtt_packets_);
			if (end <= flow.granted)
				continue;
			flow.granted = end;
			const uint32_t first = priorities_ - std::min(active, scheduled);
			answer(flow, Type::GRANT, std::min(first + i, priorities_ - 1), 0, end);
			network_.set_timer(&flow, network_.now + timeout_ps_);
		}
	}

	/* Sends again what of [from, end) has left the host: its port serves a message in order. */
	void again(Flow &flow, uint32_t from, uint32_t end)
	{
		end = std::min(end, flow.next - flow.at_host);
		flow.timeouts += from < end;
		for (uint32_t seq = from; seq < end; seq++)
			launch(flow, seq, true);
	}

	void send(Flow &flow)
	{
		while (flow.next < flow.may_send)
			launch(flow, flow.next++, false);
	}

	void launch(Flow &flow, uint32_t seq, bool is_again)
	{
		Packet *packet = network_.make(&flow);

		packet->seq = seq;
		packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
		packet->rank = flow.priority;
		packet->left = left(flow, seq);
		packet->is_again = is_again;
		network_.launch(packet);
	}

	void answer(Flow &flow, Type type, uint32_t priority, uint32_t from, uint32_t end)
	{
		Packet *packet = network_.make(&flow);

		packet->type = type;
		packet->to_sender = true;
		packet->wire_bytes = header_;
		packet->cumulative = priority;
		packet->told_first = from;
		packet->told_end = end;
		network_.launch(packet);
	}

	Network<Queue, Packet> &network_;
	const uint32_t payload_, header_, rtt_packets_, priorities_, unscheduled_, overcommitment_;
	const Time timeout_ps_;
	const bool forecasts_;
	uint64_t threshold_[QCLIMB_MAX_PRIORITIES] = {};
	std::vector<std::vector<Flow *>>
		known_; /* of each host: messages that it has heard of and not granted to the end */
};

} // namespace sim

#endif
