/*
 * A scheme that a newcomer writes: all packets leave at once; at each timeout those that are not acknowledged, again.
 */
#ifndef QCLIMB_SIM_SCHEMES_BLAST_H
#define QCLIMB_SIM_SCHEMES_BLAST_H

#include "core/scheme.h"
#include "core/window.h"
#include "queues/strict.h"

namespace sim
{

class Blast
{
      public:
	using Queue = StrictQueue;
	using Packet = sim::Packet;

	struct Flow : FlowBase {
		Window known, arrived;
	};

	Blast(const Config &config, Network<Queue, Packet> &network)
	    : network_(network), payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)),
	      timeout_ps_(config.number("timeout_ps", 1, MOST_PS))
	{
	}

	void start(Flow &flow)
	{
		for (uint32_t seq = flow.known.first(); seq < flow.packets; seq++)
			if (!flow.known.has(seq)) {
				Packet *packet = network_.make(&flow);
				packet->seq = seq;
				packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
				network_.launch(packet);
			}
		network_.set_timer(&flow, network_.now + timeout_ps_);
	}

	void at_receiver(Flow &flow, Packet *packet)
	{
		if (packet->seq < flow.arrived.first() || !flow.arrived.add(packet->seq))
			flow.duplicates++;
		if (flow.arrived.advance() == flow.packets && flow.received < 0)
			flow.received = network_.now;
		packet->type = Type::ACK;
		packet->to_sender = true;
		packet->wire_bytes = header_;
		network_.launch(packet);
	}

	void at_sender(Flow &flow, Packet *ack)
	{
		if (ack->seq >= flow.known.first())
			flow.known.add(ack->seq);
		network_.release(ack);
		if (flow.known.advance() == flow.packets && flow.acked < 0) {
			flow.acked = network_.now;
			network_.finish(&flow);
		}
	}

	void timeout(Flow &flow)
	{
		flow.timeouts++;
		start(flow);
	}

      private:
	Network<Queue, Packet> &network_;
	const uint32_t payload_, header_;
	const Time timeout_ps_;
};

static const Scheme BLAST_SCHEME("blast", run_as<Run<Blast>>);

} // namespace sim

#endif
