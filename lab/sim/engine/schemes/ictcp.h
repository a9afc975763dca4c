/*
 * ICTCP's receiver (CoNEXT'10): fair sharing by receive windows that grow only into bandwidth that is there. As we read it:
 *
 *   Slots    Time at a host is cut into slots of two round trips. In the first half it measures what it receives, in the
 *            second windows may grow, together by no more than the quota: alpha C (0.9) less what was received.
 *   Window   Each flow begins with two packets. Once a slot its measured rate b (the larger of the last one and of 3/4 of
 *            the smoothed one and 1/4 of the last) is held against what its window would let in, e = max(b, window /
 *            rtt), by d = (e - b) / e:
 *              d <= 0.1, or d <= a packet of the window: it grows where the quota has place, twofold until it first did
 *              not, by a packet from then on; the quota sinks by the growth over the round trip;
 *              d > 0.5 in three slots running: a packet less, two at least;
 *              else it stays.
 *   Fairness While less than a fifth of C is left, windows above the flows' mean shrink by a packet a slot.
 * The round trip is the host's setting for slots and the sender's smoothed one for e (ICTCP measures it at the receiver).
 */
#ifndef QCLIMB_SIM_SCHEMES_ICTCP_H
#define QCLIMB_SIM_SCHEMES_ICTCP_H

#include "schemes/tcp.h"

#include <algorithm>
#include <vector>

namespace sim
{

class IctcpReceiver
{
      public:
	static constexpr bool ADVERTISES = true;
	static constexpr uint32_t LEAST = 2; /* packets */

	struct State : Received {
		uint32_t window = LEAST;
		bool is_doubling = true;
		uint32_t idle_slots = 0; /* running, in which its window was not used */
		double bytes = 0, rate = 0; /* in this slot; bytes a second, smoothed */
		Time rtt = 0, since = 0;
		size_t at = 0; /* among its host's */
	};

	IctcpReceiver(const Config &config, uint32_t hosts)
	    : capacity_(1e12 / double(config.number("host_ps_per_byte", 1, MOST_PS_PER_BYTE))),
	      packet_(double(config.count("payload_bytes", 1, MOST_PAYLOAD) +
			     config.count("header_bytes", 1, MOST_HEADER))),
	      slot_(2 * config.number("base_rtt_ps", 1, MOST_PS)), hosts_(hosts)
	{
	}

	bool begins(const FlowBase &flow, State &state, Time now)
	{
		Host &host = hosts_[flow.target];
		const bool was_idle = host.flows.empty();

		state.allowed = state.window;
		state.rtt = slot_ / 2;
		state.since = now;
		state.at = host.flows.size();
		host.flows.push_back(&state);
		if (was_idle) {
			host.bytes = 0;
			host.is_second = false;
			host.next = now + slot_ / 2;
		}
		return was_idle;
	}

	bool answers(const FlowBase &flow, State &state, WidePacket *ack, uint32_t wire_bytes, Time now)
	{
		Host &host = hosts_[flow.target];

		if (now > ack->sent)
			state.rtt += (2 * (now - ack->sent) - state.rtt) / 8; /* there as long as back, nearly */
		state.bytes += wire_bytes;
		host.bytes += wire_bytes;
		ack->left = state.window;
		return true;
	}

	/* Others' bytes take bandwidth, too. */
	void counts(uint32_t host, uint32_t wire_bytes)
	{
		hosts_[host].bytes += wire_bytes;
	}

	template <class Launch> void ends(const FlowBase &flow, State &state, Time, Launch)
	{
		std::vector<State *> &flows = hosts_[flow.target].flows;

		flows[state.at] = flows.back();
		flows[state.at]->at = state.at;
		flows.pop_back();
	}

	template <class Launch> Time tick(uint32_t number, Time now, Launch)
	{
		Host &host = hosts_[number];

		if (host.flows.empty())
			return NEVER;
		if (now < host.next)
			return host.next;
		if (!host.is_second)
			host.quota = std::max(0.0, 0.9 * capacity_ - host.bytes / (double(slot_) / 2e12));
		else
			adjust(host, now);
		host.bytes = 0;
		host.is_second = !host.is_second;
		host.next = now + slot_ / 2;
		return host.next;
	}

      private:
	struct Host {
		std::vector<State *> flows;
		double bytes = 0, quota = 0; /* received in this half; bytes a second that windows may grow by */
		bool is_second = false;
		Time next = 0;
	};

	void adjust(Host &host, Time now)
	{
		const bool is_scarce = host.quota < 0.2 * capacity_;
		double mean = 0;

		for (const State *flow : host.flows)
			mean += double(flow->window) / double(host.flows.size());
		/* Each slot another one first: else the same few would have the quota. */
		if (!host.flows.empty())
			std::rotate(host.flows.begin(), host.flows.begin() + 1, host.flows.end());
		for (size_t at = 0; at < host.flows.size(); at++)
			host.flows[at]->at = at;
		for (State *flow : host.flows) {
			if (now - flow->since < slot_)
				continue; /* not a whole slot old */
			one(host, *flow, double(now - flow->since) * 1e-12);
			if (is_scarce && double(flow->window) > mean && flow->window > LEAST)
				flow->window--;
			flow->since = now;
		}
	}

	void one(Host &host, State &flow, double seconds) const
	{
		const double rtt = double(flow.rtt) * 1e-12, sample = flow.bytes / seconds;

		flow.rate = std::max(sample, 0.75 * flow.rate + 0.25 * sample);
		flow.bytes = 0;
		const double expected = std::max(flow.rate, flow.window * packet_ / rtt);
		const double unused = (expected - flow.rate) / expected;
		flow.idle_slots = unused > 0.5 ? flow.idle_slots + 1 : 0;
		if (unused <= 0.1 || unused <= 1.0 / flow.window) {
			const uint32_t more = flow.is_doubling ? flow.window : 1;
			const double costs = more * packet_ / rtt;
			if (costs <= host.quota) {
				host.quota -= costs;
				flow.window += more;
			} else {
				flow.is_doubling = false;
			}
		} else {
			flow.is_doubling = false;
			if (flow.idle_slots >= 3 && flow.window > LEAST) {
				flow.window--;
				flow.idle_slots = 0;
			}
		}
	}

	const double capacity_, packet_; /* bytes a second; bytes */
	const Time slot_;
	std::vector<Host> hosts_;
};

static const Scheme ICTCP_SCHEME("ictcp", run_as<Run<TcpOver<IctcpReceiver>>>);

} // namespace sim

#endif
