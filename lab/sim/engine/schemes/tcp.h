/*
 * TCP over priority queues: plain, DCTCP, PIAS and all of QCLIMB's variants, by three settings.
 *
 * Common to all. Flows are known from their first packet (no handshake); each data packet is acknowledged at once, at
 * priority 0, by its own number (a selective ACK) and the cumulative one. Packets out are those sent and neither
 * acknowledged nor held for lost; new ones go while they are fewer than the window (congestion.h); lost ones go first.
 * The timeout holds everything out for lost.
 *
 * `tagging` (tagging.h): the priority of a packet. `again_first`: what is sent again has priority 0.
 * `reordering`: what holds a packet for lost.
 *   tcp       three later ones that were selectively acknowledged (RFC 6675), whatever their priority: overtaking looks
 *             like loss. `duplicate_acks` is the three; 0 leaves all to the timeout (as ns-2 runs with spraying do).
 *   receiver  QCLIMB 3.2: the receiver's word (reordering.h). Its ACKs name what arrived and what is lost; overtaken
 *             packets wait at the receiver without a duplicate ACK, and each told loss halves the window, once a window.
 *             Any news restarts the timeout (else the cumulative number alone): packets left behind are not late yet.
 *   drain     qclimb's own (DESIGN.md 3.2): as tcp, but before a packet of an earlier-served priority all that is out must be
 *             acknowledged, for at most `promote_wait_ps`; after that the flow stays at the priority it has until the rule
 *             asks for another one. Nothing overtakes, at the price of an idle round trip a promotion.
 */
#ifndef QCLIMB_SIM_SCHEMES_TCP_H
#define QCLIMB_SIM_SCHEMES_TCP_H

#include "core/scheme.h"
#include "core/window.h"
#include "queues/strict.h"
#include "schemes/congestion.h"
#include "schemes/receiver.h"
#include "schemes/reordering.h"
#include "schemes/tagging.h"

namespace sim
{

template <class Receiver> class TcpOver
{
	enum class Reordering { TCP, RECEIVER, DRAIN };

      public:
	using Queue = StrictQueue;
	using Packet = WidePacket;

	struct Flow : FlowBase, Receiver::State {
		/* sender */
		Window known; /* acknowledged; its first is the cumulative number */
		Window lost; /* held for lost, not yet sent again */
		Window again; /* sent again since the last timeout */
		Congestion congestion;
		uint32_t next = 0; /* the next packet that was never sent */
		uint32_t first_lost = 0; /* none is lost before */
		uint32_t highest[3] = {}; /* one past the three highest packets selectively acknowledged, falling */
		uint32_t priority = 0, wanted = 0; /* of the last new packet: what it had, what the rule asked for */
		Time retransmit_at = NEVER, drained_by = NEVER; /* until when it waits for a promotion */
		Time timed_out_at = -1; /* while the timeout may still prove spurious */
		bool has_waited = false; /* for the priority wanted, in vain */
		/* receiver */
		Window arrived;
		LossByPriority losses;
	};

	TcpOver(const Config &config, Network<Queue, Packet> &network)
	    : network_(network), receiver_(config, network.hosts()), tagging_(config), congestion_(config),
	      payload_(config.count("payload_bytes", 1, MOST_PAYLOAD)),
	      header_(config.count("header_bytes", 1, MOST_HEADER)), again_first_(config.flag("again_first")),
	      duplicates_(config.count("duplicate_acks", 0, 3)),
	      promote_wait_(config.number("promote_wait_ps", 0, MOST_PS)),
	      reordering_(Reordering(config.choice("reordering", { "tcp", "receiver", "drain" })))
	{
		if constexpr (Receiver::ADVERTISES) {
			clocks_ = std::vector<Flow>(network.hosts());
			for (uint32_t host = 0; host < network.hosts(); host++) {
				clocks_[host].is_clock = true;
				clocks_[host].target = host;
			}
		}
	}

	void start(Flow &flow)
	{
		flow.congestion.begin(congestion_);
		flow.priority = flow.wanted = tagging_.priority(flow, 0, network_.now);
		if constexpr (Receiver::ADVERTISES)
			if (receiver_.begins(flow, flow, network_.now))
				tick(clocks_[flow.target]);
		send(flow);
		restart_timer(flow);
	}

	void at_receiver(Flow &flow, Packet *packet)
	{
		if (packet->seq < flow.arrived.first() || !flow.arrived.add(packet->seq))
			flow.duplicates++;
		flow.arrived.advance();
		network_.counts.waiting_sum += flow.arrived.count();
		const bool is_last = flow.received < 0 && flow.arrived.first() == flow.packets;
		const uint32_t wire_bytes = packet->wire_bytes;
		if (is_last)
			flow.received = network_.now;
		if (reordering_ == Reordering::RECEIVER)
			flow.losses.arrived(*packet);
		packet->type = Type::ACK; /* the packet goes back as its own ACK */
		packet->to_sender = true;
		packet->rank = 0;
		packet->wire_bytes = header_;
		packet->cumulative = flow.arrived.first();
		if constexpr (Receiver::ADVERTISES) {
			if (receiver_.answers(flow, flow, packet, wire_bytes, network_.now))
				network_.launch(packet);
			if (is_last)
				receiver_.ends(flow, flow, network_.now, launcher());
		} else {
			network_.launch(packet);
		}
	}

	void at_sender(Flow &flow, Packet *ack)
	{
		const uint32_t before = flow.known.first(), held = flow.known.count();
		const bool is_new = ack->seq >= before && flow.known.add(ack->seq);

		if constexpr (Receiver::ADVERTISES)
			flow.allowed = ack->left;
		if (!ack->is_again)
			flow.congestion.measured(network_.now - ack->sent);
		if (ack->cumulative > before) {
			flow.known.advance_to(ack->cumulative);
			flow.lost.advance_to(flow.known.first());
			flow.again.advance_to(flow.known.first());
		}
		flow.known.advance();
		const uint32_t first = flow.known.first();
		if (first > before && flow.timed_out_at >= 0) {
			if (!ack->is_again && ack->sent < flow.timed_out_at) {
				flow.congestion.was_spurious();
				flow.lost.clear();
			}
			flow.timed_out_at = -1;
		}
		flow.lost.advance_to(first);
		flow.again.advance_to(first);
		flow.first_lost = std::max(flow.first_lost, first);
		if (is_new && ack->seq >= first)
			flow.lost.remove(ack->seq);
		const uint32_t news = first - before + flow.known.count() - held;
		const bool is_marked = ack->is_marked;
		const uint32_t seq = ack->seq, told_first = ack->told_first, told_end = ack->told_end;
		network_.release(ack);
		if (first == flow.packets) {
			flow.acked = network_.now;
			network_.finish(&flow);
			return;
		}
		if (news) {
			/* A window is over when as many packets as were out have arrived: the cumulative number says so
			   only where nothing overtakes. */
			const uint32_t arrived = first + (reordering_ == Reordering::RECEIVER ? flow.known.count() : 0);
			flow.congestion.acked(congestion_, news, is_marked, arrived, flow.next);
		}
		if (reordering_ == Reordering::RECEIVER)
			hold_for_lost(flow, told_first, told_end);
		else if (is_new && duplicates_)
			by_duplicate_acks(flow, seq);
		send(flow);
		if (first > before || (news && reordering_ == Reordering::RECEIVER))
			restart_timer(flow);
		else
			set_timer(flow);
	}

	void timeout(Flow &flow)
	{
		if constexpr (Receiver::ADVERTISES)
			if (flow.is_clock) {
				tick(flow);
				return;
			}
		if (flow.drained_by <= network_.now) {
			flow.drained_by = NEVER; /* nothing is wrong: the wait for a promotion is over */
			flow.has_waited = true;
			send(flow);
			set_timer(flow);
			return;
		}
		flow.timeouts++;
		flow.congestion.timed_out();
		flow.timed_out_at = network_.now;
		flow.again.clear();
		for (uint32_t packet = flow.known.first(); packet < flow.next; packet++)
			if (!flow.known.has(packet))
				flow.lost.add(packet);
		flow.first_lost = flow.known.first();
		send(flow);
		restart_timer(flow);
	}

      private:
	uint32_t out(const Flow &flow) const
	{
		return flow.next - flow.known.first() - flow.known.count() - flow.lost.count();
	}

	uint32_t window(const Flow &flow) const
	{
		if constexpr (Receiver::ADVERTISES)
			return std::min(flow.congestion.window(), flow.allowed);
		else
			return flow.congestion.window();
	}

	auto launcher()
	{
		return [this](Packet *ack) { network_.launch(ack); };
	}

	/* A host's receiver is called, and says when again. */
	void tick(Flow &clock)
	{
		const Time next = receiver_.tick(clock.target, network_.now, launcher());

		if (next < NEVER)
			network_.set_timer(&clock, next);
	}

	void send(Flow &flow)
	{
		while (out(flow) < window(flow)) {
			if (flow.lost.count()) {
				while (!flow.lost.has(flow.first_lost))
					flow.first_lost++;
				const uint32_t packet = flow.first_lost;
				flow.lost.remove(packet);
				flow.again.add(packet);
				launch(flow, packet, again_first_ ? 0 : tagging_.priority(flow, packet, network_.now),
				       true);
			} else if (flow.next < flow.packets && may_send_next(flow)) {
				launch(flow, flow.next++, flow.priority, false);
			} else {
				return;
			}
		}
	}

	/* Sets the next packet's priority; false while it must wait for a promotion. */
	bool may_send_next(Flow &flow)
	{
		const uint32_t wanted = tagging_.priority(flow, flow.next, network_.now);

		if (reordering_ != Reordering::DRAIN || wanted >= flow.priority || flow.known.first() == flow.next) {
			flow.priority = flow.wanted = wanted;
			flow.drained_by = NEVER;
			return true;
		}
		if (wanted != flow.wanted) {
			flow.wanted = wanted;
			flow.has_waited = false;
			flow.drained_by = network_.now + promote_wait_;
		}
		return flow.has_waited; /* in vain: it stays where it is */
	}

	void launch(Flow &flow, uint32_t seq, uint32_t priority, bool is_again)
	{
		Packet *packet = network_.make(&flow);

		packet->seq = seq;
		packet->wire_bytes = header_ + (seq + 1 == flow.packets ? flow.last_bytes : payload_);
		packet->rank = priority;
		packet->sent = network_.now;
		packet->is_again = is_again;
		network_.launch(packet);
	}

	void by_duplicate_acks(Flow &flow, uint32_t seq)
	{
		uint32_t place = seq + 1;

		for (uint32_t &high : flow.highest)
			if (place > high)
				std::swap(place, high);
		const uint32_t at = duplicates_ - 1;
		if (flow.highest[at])
			hold_for_lost(flow, flow.known.first(), flow.highest[at] - 1);
	}

	/* What is missing in [from, end) is lost, unless it was sent again already. */
	void hold_for_lost(Flow &flow, uint32_t from, uint32_t end)
	{
		bool is_any = false;

		end = std::min(end, flow.next);
		for (uint32_t packet = std::max(from, flow.known.first()); packet < end; packet++)
			if (!flow.known.has(packet) && !flow.again.has(packet) && flow.lost.add(packet)) {
				is_any = true;
				network_.counts.losses_told++;
				flow.first_lost = std::min(flow.first_lost, packet);
			}
		if (is_any)
			flow.congestion.lost(flow.next);
	}

	void restart_timer(Flow &flow)
	{
		flow.retransmit_at = network_.now + flow.congestion.timeout(congestion_);
		set_timer(flow);
	}

	void set_timer(Flow &flow)
	{
		network_.set_timer(&flow, std::min(flow.retransmit_at, flow.drained_by));
	}

	Network<Queue, Packet> &network_;
	Receiver receiver_;
	std::vector<Flow> clocks_; /* of hosts, where the receiver wants one */
	const Tagging tagging_;
	const CongestionSettings congestion_;
	const uint32_t payload_, header_;
	const bool again_first_;
	const uint32_t duplicates_;
	const Time promote_wait_;
	const Reordering reordering_;
};

using Tcp = TcpOver<KernelReceiver>;

static const Scheme TCP_SCHEME("tcp", run_as<Run<Tcp>>);

} // namespace sim

#endif
