/*
 * What moves and what lives: a packet, and the part of a flow that every scheme has.
 *
 * Invariant: a flow's memory is given back when it is over *and* none of its packets is in the network.
 */
#ifndef QCLIMB_SIM_PACKET_H
#define QCLIMB_SIM_PACKET_H

#include "core/calendar.h"

namespace sim
{

struct FlowBase;

enum class Type : uint8_t { DATA, ACK, PROBE, GRANT, TERM };

constexpr int MAX_HOPS = 12;
constexpr int MAX_PARTS = 8; /* of a flow that takes several paths at once */

constexpr int NEAR_HOPS = 6; /* of a path that a packet carries whole, where ports' numbers have 16 bits (wiring.h) */

/* What every port and scheme needs of a packet, in one cache line: a large fabric's packets are in no near cache. Four
 * bytes are left for what a scheme has to add. */
struct alignas(64) Packet : Event {
	Type type = Type::DATA;
	uint8_t hop = 0, hops = 0; /* links passed, links of the path */
	bool to_sender = false; /* against the flow: ACK, grant */
	bool is_marked = false; /* ECN: congestion met; an ACK echoes it */
	bool is_again : 1; /* a retransmission */
	uint8_t part : 4; /* of its flow, where that takes several paths at once */
	uint32_t wire_bytes = 0;
	uint32_t rank = 0; /* served first where it is smallest: pFabric's remaining bytes, or a priority */
	FlowBase *flow;
	uint32_t seq = 0; /* which packet of its flow; in an ACK, the packet that caused it */
	uint32_t cumulative = 0; /* in an ACK: packets before this one have all arrived */
	union {
		uint32_t ahead[3] = {}; /* ports after the first, in order; or where a long path stands (wiring.h) */
		uint16_t path[NEAR_HOPS]; /* of a wired fabric: all ports, the first one's too */
	};

	explicit Packet(FlowBase *of) : is_again(false), part(0), flow(of)
	{
		kind = Kind::PACKET;
	}
};

/* What TCP's and Homa's packets say beyond that. */
struct WidePacket : Packet {
	Time sent = 0; /* when the data packet left; an ACK echoes it */
	uint32_t told_first = 0,
		 told_end = 0; /* in an ACK: these packets the receiver counts as lost; a grant: up to end */
	uint32_t left = 0; /* Homa: packets left of the message, this one included; in an ACK: the receiver's window */

	using Packet::Packet;
};

/* A flow's timer; with Kind::NOTHING, one that was set anew to an earlier time, or whose flow is over. */
struct Timer : Event {
	FlowBase *flow;

	explicit Timer(FlowBase *of) : flow(of)
	{
		kind = Kind::TIMER;
	}
};

/* One flow, sender and receiver in one: they meet only in what packets carry. */
struct FlowBase {
	Timer *timer = nullptr;
	uint64_t index = 0;
	Time start = 0;
	Time deadline = NEVER; /* of the timer; the event may stand earlier, and is then put in again */
	Time timer_at = NEVER; /* when the event stands, if there is one */
	Time received = -1; /* the last byte arrived */
	Time acked = -1; /* the sender knows */
	Time due = NEVER; /* the last byte is wanted by then; NEVER: whenever it comes */
	uint64_t size_bytes = 0;
	uint64_t lower_bytes = 0, upper_bytes = 0, forecast_bytes = 0;
	uint32_t source = 0, target = 0;
	uint32_t in_flight = 0; /* packets of it in the network, ACKs included */
	uint32_t at_host = 0; /* Homa: data packets of it that wait in its sender's own port */
	uint32_t sent = 0, drops = 0, timeouts = 0, duplicates = 0, marked = 0;
	uint32_t packets = 0, last_bytes = 0; /* data packets, and the payload of the last one */
	FlowBase *next_over = nullptr;
	FlowBase *previous = nullptr, *following = nullptr; /* among those that are not over */
	uint64_t task = 0, task_largest_bytes = 0; /* whose flow it is, 0: its own; the largest flow of that */
	bool is_over = false;
	uint32_t group = 0; /* whose weight it shares at ports that have groups */
	/* In a wired fabric: the ends' entry among its pairs, once it was looked up; how long its path is, once that is
	 * known and short, and its ports there and back. */
	uint32_t pair = UINT32_MAX;
	uint8_t hops = 0;
	uint16_t near[2][NEAR_HOPS];
};

} // namespace sim

#endif
