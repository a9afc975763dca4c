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

#include "core/scheme.h"
#include "core/window.h"
#include "queues/homa.h"

#include <qclimb/priority.h>

#include <algorithm>
#include <set>

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
		uint32_t known_left = 0; /* what it stands by among its receiver's messages; 0: it does not */
	};

	/* A message that its receiver has heard of and not granted to the end, and those of one receiver: least left first. */
	struct Heard {
		uint32_t left;
		uint64_t index;
		Flow *flow;
		bool operator<(const Heard &other) const
		{
			return left != other.left ? left < other.left : index < other.index;
		}
	};
	using Known = std::set<Heard>;

	Homa(const Config &config, Network<Queue, Packet> &network)
	    : network_(network), payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      rtt_packets_(config.count("rtt_packets", 1, MOST_PACKETS)),
	      priorities_(config.count("priorities", 2, QCLIMB_MAX_PRIORITIES)),
	      unscheduled_(config.count("unscheduled", 1, priorities_ - 1)),
	      overcommitment_(config.count("overcommitment", 1, MOST_PACKETS)),
	      timeout_ps_(config.number("timeout_ps", 1, MOST_PS)), forecasts_(config.flag("sizes_are_forecasts")),
	      known_(network.hosts())
	{
		const std::vector<uint64_t> begin = config.ascending("thresholds", unscheduled_ - 1);

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
		Known &known = known_[flow.target];
		if (flow.known_left)
			known.erase({ flow.known_left, flow.index, &flow });
		flow.known_left = flow.granted < flow.packets ? left(flow, came(flow)) : 0;
		if (flow.known_left)
			known.insert({ flow.known_left, flow.index, &flow });
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
		const uint32_t count = came(flow);

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
		const uint64_t all = forecasts_ ? flow.forecast_bytes / payload_ + (flow.forecast_bytes % payload_ > 0)
						: flow.packets;

		return all > gone ? uint32_t(std::min<uint64_t>(all - gone, UINT32_MAX)) : 1;
	}

	/* Packets that have arrived. */
	static uint32_t came(const Flow &flow)
	{
		return flow.arrived.first() + flow.arrived.count();
	}

	void grant(Known &known)
	{
		const uint32_t active = std::min(uint32_t(known.size()), overcommitment_);
		const uint32_t first = priorities_ - std::min(active, priorities_ - unscheduled_);
		auto at = known.begin();

		for (uint32_t i = 0; i < active; i++) {
			Flow &flow = *at->flow;
			const uint32_t end = std::min(flow.packets, came(flow) + rtt_packets_);
			if (end > flow.granted) {
				flow.granted = end;
				answer(flow, Type::GRANT, std::min(first + i, priorities_ - 1), 0, end);
				network_.set_timer(&flow, network_.now + timeout_ps_);
			}
			if (end == flow.packets) {
				flow.known_left = 0;
				at = known.erase(at);
			} else {
				++at;
			}
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
	std::vector<Known> known_; /* of each host */
};

static const Scheme HOMA_SCHEME("homa", run_as<Run<Homa>>);

} // namespace sim

#endif
