/*
 * OPTAX's receiver (TAAS, Algorithms 1 to 3) by the text that hosts run (<qclimb/coflow.h>).
 *
 *   Line     Small tasks whose flows come to a host stand in a line by arrival; a task leaves when none of its flows is
 *            under way. Large ones share as under ICTCP (ictcp.h). The 65th and later are not held back, as on hosts.
 *   Window   Each of the head's flows has the line's window, which is set anew every interval by what the head received
 *            (Algorithm 3; qclimb_window_next), from W_min on when it becomes the head. The others have W_min.
 *   Delay    The head's ACKs go at once, and all do while the line's flows together receive less than alpha C. Else the
 *            others' wait (Algorithm 2; qclimb_ack_delay_ns), by what the head leaves of alpha C, at most Delay_max. Every
 *            interval in which there is room, held ACKs go in the line's order, as many windows as the room has; those
 *            of a new head go at once.
 * Ours, for the paper leaves it open: rates are of the flows in line, for ports serve those first; W_min, the largest
 * window, Delay_max, the interval and the base round trip are settings; a rate is half the last interval's, half what
 * was; an interval in which the head changed moves no window.
 */
#ifndef QCLIMB_SIM_SCHEMES_OPTAX_H
#define QCLIMB_SIM_SCHEMES_OPTAX_H

#include "schemes/ictcp.h"

#include <qclimb/coflow.h>

#include <algorithm>
#include <vector>

namespace sim
{

class OptaxReceiver
{
      public:
	static constexpr bool ADVERTISES = true;

	struct State : IctcpReceiver::State {
		bool is_in_line = false;
	};

	OptaxReceiver(const Config &config, uint32_t hosts)
	    : others_(config, hosts),
	      capacity_(uint64_t(1e12 / double(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE)))),
	      packet_(config.count("payload_bytes", 1, MOST_PAYLOAD) + config.count("header_bytes", 1, MOST_HEADER)),
	      small_bytes_(config.bytes("small_coflow_bytes")), least_(config.count("least_window", 1, MOST_PACKETS)),
	      most_(config.count("most_window", least_, MOST_PACKETS)),
	      first_(config.count("first_window", least_, most_)),
	      interval_(config.number("interval_ps", 1000, MOST_PS)),
	      delay_most_(config.number("delay_most_ps", 0, MOST_PS)),
	      base_rtt_(config.number("base_rtt_ps", 0, MOST_PS)),
	      patience_ns_(uint64_t(config.number("patience_ps", 1, MOST_PS)) / 1000), hosts_(hosts)
	{
		for (Host &host : hosts_)
			host.window = first_;
	}

	/* The flow's first window; whether its host's clock is to be started. */
	bool begins(const FlowBase &flow, State &state, Time now)
	{
		Host &host = hosts_[flow.target];
		const bool was_idle = host.tasks.empty();

		if (!qclimb_task_is_small(flow.task_largest_bytes, small_bytes_))
			return others_.begins(flow, state, now);
		state.is_in_line = true;
		size_t at = place_of(host, id_of(flow));
		if (at == host.tasks.size()) {
			host.tasks.push_back({ id_of(flow), ns(now), ns(now) });
			host.flows.push_back(0);
			host.order_is_known = false;
		}
		host.flows[at]++;
		state.allowed = window_of(host, at, now);
		if (was_idle)
			host.next = now + interval_;
		return was_idle;
	}

	/* Whether the ACK goes now, and with which window; else it is kept. */
	bool answers(const FlowBase &flow, State &state, WidePacket *ack, uint32_t wire_bytes, Time now)
	{
		Host &host = hosts_[flow.target];
		const size_t at = state.is_in_line ? place_of(host, id_of(flow)) : host.tasks.size();

		if (!state.is_in_line)
			return others_.answers(flow, state, ack, wire_bytes, now);
		others_.counts(flow.target, wire_bytes);
		ack->left = host.window;
		if (at == host.tasks.size())
			return true; /* of a flow that is over */
		host.tasks[at].active_ns = ns(now);
		host.all.add(wire_bytes);
		const bool is_before = is_head(host, at, now);
		if (is_before)
			host.head.add(wire_bytes);
		ack->left = window_of(host, at, now);
		if (is_before || host.all.value() < qclimb_congested_rate(capacity_))
			return true;
		const uint64_t delay_ns =
			qclimb_ack_delay_ns(behind(host), uint64_t(least_) * packet_, capacity_, host.head.value(),
					    uint64_t(base_rtt_) / 1000, uint64_t(delay_most_) / 1000);
		host.held.push_back({ ack, id_of(flow), now + Time(delay_ns) * 1000 });
		return delay_ns == 0 ? take_back(host) : false;
	}

	/* Its last byte has come. */
	template <class Launch> void ends(const FlowBase &flow, State &state, Time now, Launch launch)
	{
		Host &host = hosts_[flow.target];

		if (!state.is_in_line) {
			others_.ends(flow, state, now, launch);
			return;
		}
		state.is_in_line = false;
		const size_t at = place_of(host, id_of(flow));
		if (--host.flows[at])
			return;
		host.tasks.erase(host.tasks.begin() + std::ptrdiff_t(at));
		host.flows.erase(host.flows.begin() + std::ptrdiff_t(at));
		if (host.tasks.empty())
			host.head_id = 0;
		host.order_is_known = false;
		release(host, now, launch, 0);
	}

	/* When it wants to be called again; NEVER: nobody is there. */
	template <class Launch> Time tick(uint32_t number, Time now, Launch launch)
	{
		return std::min(line_tick(number, now, launch), others_.tick(number, now, launch));
	}

      private:
	template <class Launch> Time line_tick(uint32_t number, Time now, Launch launch)
	{
		Host &host = hosts_[number];
		uint64_t room = 0;

		if (host.next <= now) {
			host.all.close(interval_);
			if (host.head_whole)
				host.head.close(interval_);
			host.order_is_known = false; /* who is quiet is passed over */
			for (const Held &held : host.held)
				host.tasks[place_of(host, held.task)].active_ns = ns(now);
			if (host.head_whole)
				host.window =
					qclimb_window_next(host.window, host.head.value(), capacity_, least_, most_);
			host.head_whole = true;
			const uint64_t most = qclimb_congested_rate(capacity_), seen = host.all.value();
			room = seen < most ? uint64_t(double(most - seen) * double(interval_) * 1e-12) : 0;
			host.next = now + interval_;
		}
		release(host, now, launch, room);
		if (host.tasks.empty())
			return NEVER;
		Time soonest = host.next;
		for (const Held &held : host.held)
			soonest = std::min(soonest, held.due);
		return soonest;
	}

	struct Held {
		WidePacket *ack;
		uint64_t task;
		Time due;
	};

	struct Host {
		std::vector<qclimb_task> tasks; /* by arrival */
		std::vector<uint32_t> flows; /* of each, under way */
		std::vector<Held> held;
		Rate all, head;
		uint32_t window = 0; /* packets, of each of the head's flows */
		Time next = 0; /* interval's end */
		bool order_is_known = false;
		bool head_whole = true; /* the head is it since this interval's start */
		size_t head_at = 0; /* where the head stands, if that is known */
		uint64_t head_id = 0; /* which task that is; 0: none, or none yet */
	};

	static uint64_t ns(Time at)
	{
		return uint64_t(at) / 1000;
	}

	/* A flow without a task is one of its own. */
	static uint64_t id_of(const FlowBase &flow)
	{
		return flow.task ? flow.task : (uint64_t(1) << 63) + flow.index;
	}

	static size_t place_of(const Host &host, uint64_t id)
	{
		size_t at = 0;

		while (at < host.tasks.size() && host.tasks[at].id != id)
			at++;
		return at;
	}

	/* Finds the head: the task that has nobody active before it, by the hosts' own rule. */
	void order(Host &host, Time now) const
	{
		const uint32_t count = uint32_t(std::min<size_t>(host.tasks.size(), QCLIMB_TASKS));

		if (host.order_is_known)
			return;
		host.order_is_known = true;
		for (host.head_at = 0; host.head_at < count; host.head_at++)
			if (!qclimb_task_rank(host.tasks.data(), count, host.tasks[host.head_at].id, ns(now),
					      patience_ns_))
				break;
		const uint64_t id = host.head_at < count ? host.tasks[host.head_at].id : 0;
		if (id == host.head_id)
			return;
		host.window = host.head_id ? least_ : first_;
		host.head_id = id;
		host.head.clear();
		host.head_whole = false;
	}

	/* More tasks than a line has places are not held back. */
	bool is_head(Host &host, size_t at, Time now) const
	{
		order(host, now);
		return at == host.head_at || at >= QCLIMB_TASKS;
	}

	uint32_t window_of(Host &host, size_t at, Time now) const
	{
		return is_head(host, at, now) ? host.window : least_;
	}

	static uint32_t behind(const Host &host)
	{
		uint32_t flows = 0;

		for (size_t at = 0; at < host.flows.size(); at++)
			flows += at == host.head_at ? 0 : host.flows[at];
		return flows;
	}

	static bool take_back(Host &host)
	{
		host.held.pop_back();
		return true;
	}

	/* Held ACKs that are due or the head's, and of the others, in the line's order, what `room` bytes have place for. */
	template <class Launch> void release(Host &host, Time now, Launch launch, uint64_t room)
	{
		if (host.held.empty())
			return;
		std::stable_sort(host.held.begin(), host.held.end(), [&host](const Held &a, const Held &b) {
			return place_of(host, a.task) < place_of(host, b.task);
		});
		std::vector<Held> &held = host.held;
		size_t kept = 0;
		for (size_t i = 0; i < held.size(); i++) {
			const size_t at = place_of(host, held[i].task);
			const bool is_first = at == host.tasks.size() || is_head(host, at, now);
			const bool has_room = room >= packet_;
			if (!is_first && held[i].due > now && !has_room) {
				held[kept++] = held[i];
				continue;
			}
			if (!is_first && held[i].due > now)
				room -= packet_;
			held[i].ack->left = is_first ? host.window : least_;
			launch(held[i].ack);
		}
		held.resize(kept);
	}

	IctcpReceiver others_; /* of large tasks' flows */
	const uint64_t capacity_; /* bytes a second */
	const uint32_t packet_; /* bytes of a full one, with its headers */
	const uint64_t small_bytes_;
	const uint32_t least_, most_, first_;
	const Time interval_, delay_most_, base_rtt_;
	const uint64_t patience_ns_;
	std::vector<Host> hosts_;
};

static const Scheme OPTAX_SCHEME("optax", run_as<Run<TcpOver<OptaxReceiver>>>);

} // namespace sim

#endif
