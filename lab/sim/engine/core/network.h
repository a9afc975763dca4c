/*
 * Ports with queues, links, and the packets on them. Store and forward; a link is a rate and a delay, and may lose packets
 * at random: they take their time on it, and do not arrive.
 *
 * A packet costs one event a hop: when it begins to leave a port, the time at which it stands at the next one is known.
 * A port costs an event only while its queue is not empty: it then chooses at the moment it gets free.
 * Invariants (SIM_CHECKS): a port never idles over a queue, bytes in are bytes out, dropped or queued.
 */
#ifndef QCLIMB_SIM_NETWORK_H
#define QCLIMB_SIM_NETWORK_H

#include "core/pool.h"
#include "core/topology.h"
#include "core/watch.h"

namespace sim
{

struct Counts {
	uint64_t data_packets = 0, control_packets = 0, delivered_packets = 0; /* sent by hosts; data that arrived */
	uint64_t drops_at[PLACES] = {}, control_drops = 0;
	uint64_t rank_packets[64] = {}, rank_drops[64] = {}; /* by priority, where ranks are priorities */
	uint64_t marks = 0;
	uint64_t waiting_sum = 0; /* packets beyond a gap at their receiver, added up over arrivals of data */
	uint64_t losses_told = 0; /* packets held for lost by what receivers said, and not by a timeout */
};

/* Switches that queue and do no more. Others see each packet as it comes to stand at a port, before it is queued. */
struct NoLinks {
	NoLinks(const Config &, Topology &)
	{
	}
	template <class Queue> void pass(const Packet *, uint32_t, Time, const Queue &)
	{
	}
	void fetch(const Packet &, uint32_t) const
	{
	}
};

/* `Stored` is the scheme's kind of packet, `Links` what its switches do. */
template <class Queue, class Stored = Packet, class Links = NoLinks> class Network
{
      public:
	Network(const Config &config, Topology &topology, Calendar &calendar)
	    : links(config, topology), watch(config), topology_(topology), calendar_(calendar),
	      ranks_are_priorities_(Queue::RANKS_ARE_PRIORITIES)
	{
		for (const Link &link : topology.links)
			ports_.emplace_back(link, config);
		config.number("watched_port", -1, int64_t(ports_.size()) - 1);
		const std::vector<uint64_t> at = config.numbers("lossy_ports", UINT32_MAX);
		const std::vector<uint64_t> ppm = config.numbers("loss_ppm", MILLION);
		if (at.size() != ppm.size())
			refuse("loss_ppm has " + std::to_string(ppm.size()) + " numbers for " +
			       std::to_string(at.size()) + " lossy_ports");
		for (size_t i = 0; i < at.size(); i++) {
			if (at[i] >= ports_.size())
				refuse("lossy_ports[" + std::to_string(i) + "] is " + std::to_string(at[i]) +
				       ", expected below " + std::to_string(ports_.size()));
			loss_ppm_.resize(ports_.size());
			loss_ppm_[at[i]] = uint32_t(ppm[i]);
		}
		seed_ = uint64_t(config.number("seed", 0, INT64_MAX));
	}

	Time now = 0;
	Counts counts;
	Links links;
	Watch watch;
	FlowBase *over = nullptr; /* flows whose memory may be given back */

	Stored *make(FlowBase *flow)
	{
		flow->in_flight++;
		return packets_.make(flow);
	}

	/* A host hands a packet to its port; path and hop are set here. */
	void launch(Packet *packet)
	{
		if (packet->type == Type::DATA) {
			counts.data_packets++;
			packet->flow->sent++;
		} else {
			counts.control_packets++;
		}
		if (ranks_are_priorities_)
			counts.rank_packets[packet->rank & 63]++;
		forward(packet, topology_.route(*packet));
	}

	/* Brings near what a packet touches that will stand at this port soon. */
	void fetch(const Packet &packet, uint32_t at) const
	{
		__builtin_prefetch(&ports_[at]);
		__builtin_prefetch(reinterpret_cast<const char *>(&ports_[at]) + 64);
		if (sizeof(Stored) > 64)
			__builtin_prefetch(reinterpret_cast<const char *>(&packet) + 64);
		links.fetch(packet, at);
	}

	/* The same of a port that is near and will serve its queue. */
	void fetch_queue(const Event &event) const
	{
		const Port &port = static_cast<const Port &>(event);

		__builtin_prefetch(reinterpret_cast<const char *>(&port) + 64);
		port.queue.fetch();
	}

	/* The packet that a port which is near will serve. */
	void fetch_served(const Event &event) const
	{
		static_cast<const Port &>(event).queue.fetch_served();
	}

	/* The packet stands at this port. */
	void forward(Packet *packet, uint32_t at)
	{
		Port &port = ports_[at];

		links.pass(static_cast<Stored *>(packet), at, now, port.queue);
		port.check_in(packet->wire_bytes);
		if (now >= port.busy_until && !port.is_scheduled) {
			SIM_CHECK(port.queue.is_empty(), "a port that is free has no queue");
			transmit(port, packet);
			return;
		}
		if (Packet *lost = port.queue.push(packet)) {
			port.check_out(lost->wire_bytes);
			drop(lost, port.place);
		}
		if (!port.is_scheduled && !port.queue.is_empty())
			calendar_.put(&port, port.busy_until);
		see(port);
		port.check();
	}

	/* A port got free: it serves its queue. */
	void serve(Event *event)
	{
		Port &port = *static_cast<Port *>(event);
		Packet *packet = port.queue.pop();

		SIM_CHECK(port.busy_until == now, "a port serves its queue the moment it is free");
		transmit(port, packet);
		if (!port.queue.is_empty())
			calendar_.put(&port, port.busy_until);
		see(port);
		port.check();
	}

	/* The packet is done with. */
	void release(Packet *packet)
	{
		FlowBase *flow = packet->flow;

		packets_.drop(static_cast<Stored *>(packet));
		if (--flow->in_flight == 0 && flow->is_over)
			retire(flow);
	}

	/* The sender needs the flow no longer. */
	void finish(FlowBase *flow)
	{
		flow->is_over = true;
		flow->deadline = NEVER;
		forget_timer(flow);
		if (flow->in_flight == 0)
			retire(flow);
	}

	/* The flow's timer goes off at this time, unless it is set anew. */
	void set_timer(FlowBase *flow, Time at)
	{
		flow->deadline = at;
		if (flow->timer && flow->timer_at > at)
			forget_timer(flow);
		if (!flow->timer) {
			flow->timer = timers_.make(flow);
			flow->timer_at = at;
			calendar_.put(flow->timer, at);
		}
	}

	/* The flow whose timer went off in earnest, or null. */
	FlowBase *due(Timer *timer)
	{
		FlowBase *flow = timer->flow;

		if (flow->deadline > now && flow->deadline != NEVER) {
			flow->timer_at = flow->deadline;
			calendar_.put(timer, flow->deadline);
			return nullptr;
		}
		const bool is_due = flow->deadline <= now;
		flow->timer = nullptr;
		flow->deadline = NEVER;
		timers_.drop(timer);
		return is_due ? flow : nullptr;
	}

	/* The time of a timer that was no longer wanted has come. */
	void drop(Timer *timer)
	{
		timers_.drop(timer);
	}

	uint32_t hosts() const
	{
		return topology_.hosts();
	}
	size_t packets_peak() const
	{
		return packets_.peak();
	}
	size_t packets_live() const
	{
		return packets_.live();
	}
	size_t packet_bytes() const
	{
		return packets_.bytes();
	}

      private:
	static constexpr uint64_t MILLION = 1'000'000;

	/* What a packet that finds the port free needs is in its first cache line. */
	struct alignas(64) Port : Event {
		Place place;
		Time ps_per_byte, delay;
		Time busy_until = 0;
		Queue queue;
#ifdef SIM_CHECKS
		uint64_t bytes_in = 0, bytes_out = 0;
		void check_in(uint32_t bytes)
		{
			bytes_in += bytes;
		}
		void check_out(uint32_t bytes)
		{
			bytes_out += bytes;
		}
		void check() const
		{
			SIM_CHECK(queue.is_empty() || is_scheduled, "no port idles over a queue");
			SIM_CHECK(bytes_in == bytes_out + queue.bytes(), "a port conserves bytes");
			SIM_CHECK(queue.bytes() == queue.counted_bytes(), "a queue knows its bytes");
		}
#else
		void check_in(uint32_t)
		{
		}
		void check_out(uint32_t)
		{
		}
		void check() const
		{
		}
#endif
		Port(const Link &link, const Config &config)
		    : place(link.place), ps_per_byte(link.ps_per_byte), delay(link.delay), queue(config, link.place)
		{
			kind = Kind::PORT;
		}
	};

	void transmit(Port &port, Packet *packet)
	{
		port.check_out(packet->wire_bytes);
		port.busy_until = now + packet->wire_bytes * port.ps_per_byte;
		packet->hop++;
		if (watch.is_on() && watch.sees(number(port)))
			watch.sent(now, packet->flow->index, packet->wire_bytes);
		if (!loss_ppm_.empty() && mix(random_++, seed_) % MILLION < loss_ppm_[number(port)])
			drop(packet, port.place);
		else
			calendar_.put(packet, port.busy_until + port.delay);
	}

	uint64_t number(const Port &port) const
	{
		return uint64_t(&port - ports_.data());
	}

	void see(const Port &port)
	{
		if (watch.is_on() && watch.sees(number(port)))
			watch.queued(now, port.queue.bytes());
	}

	void drop(Packet *packet, Place place)
	{
		if (packet->type == Type::DATA) {
			packet->flow->drops++;
			counts.drops_at[int(place)]++;
		} else {
			counts.control_drops++;
		}
		if (ranks_are_priorities_)
			counts.rank_drops[packet->rank & 63]++;
		release(packet);
	}

	void forget_timer(FlowBase *flow)
	{
		if (flow->timer)
			flow->timer->kind = Kind::NOTHING;
		flow->timer = nullptr;
	}

	void retire(FlowBase *flow)
	{
		flow->next_over = over;
		over = flow;
	}

	Topology &topology_;
	Calendar &calendar_;
	Pool<Stored> packets_;
	Pool<Timer> timers_;
	std::vector<Port> ports_;
	const bool ranks_are_priorities_;
	std::vector<uint32_t> loss_ppm_; /* by port; empty: none loses any */
	uint64_t random_ = 0, seed_ = 0;
};

} // namespace sim

#endif
