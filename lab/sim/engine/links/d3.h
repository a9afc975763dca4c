/*
 * D3 (SIGCOMM'11), as PDQ's paper describes it (sections 2.1 and 5.1): first come, first reserved.
 *
 * Once a round trip a flow asks for the rate that meets its deadline (0 without one), and gives back what it had. A link
 * grants it as far as its capacity is not reserved, and its share of what no deadline needs on top: fs = (C - demand) / flows,
 * never below 0 (the constraint that PDQ's authors add). Rate adaptation: every round trip
 * C = rate + alpha (rate - what came) - beta queue / RTT. Between requests a packet carries what was granted last.
 */
#ifndef QCLIMB_SIM_LINKS_D3_H
#define QCLIMB_SIM_LINKS_D3_H

#include "links/rated.h"

namespace sim
{

class D3Rule
{
      public:
	struct Part : RatedPart {
		uint64_t wanted_at[MAX_HOPS] = {}, given_at[MAX_HOPS] = {}; /* the vectors that headers carry */
	};
	static constexpr bool ASKS = true; /* who sends, once a round trip, for what it wants */
	static constexpr bool BY_LEAST_RTT = false; /* of the two that senders measure; else the average */

	struct Settings {
		Time rtt;
		uint64_t alpha, beta; /* hundredths */

		explicit Settings(const Config &config)
		    : rtt(config.number("rtt_ps", 1, SECOND)), alpha(config.count("alpha_100ths", 0, 100)),
		      beta(config.count("beta_100ths", 0, 1000))
		{
		}
	};

	D3Rule(uint32_t, Time ps_per_byte, const Settings &settings)
	    : settings_(settings), link_(ps_per_byte, settings.rtt, BY_LEAST_RTT), capacity_(link_.full())
	{
	}

	void out(RatedPacket &packet, Part &flow, Time now, uint64_t queued)
	{
		uint64_t &wanted = flow.wanted_at[packet.hop], &given = flow.given_at[packet.hop];

		link_.passed(packet, flow, now, queued);
		came_ += packet.wire_bytes;
		if (packet.type == Type::TERM || packet.asks) {
			demand_ -= wanted;
			reserved_ -= given;
			wanted = given = 0;
		}
		if (packet.type == Type::TERM)
			return;
		adapt(now, queued);
		if (packet.asks) {
			const uint64_t rest = capacity_ > reserved_ ? capacity_ - reserved_ : 0;
			wanted = packet.wanted;
			demand_ += wanted;
			const uint64_t share = capacity_ > demand_ ? (capacity_ - demand_) / link_.flows() : 0;
			given = rest > wanted ? std::min(rest, wanted + share) : rest;
			reserved_ += given;
		}
		packet.rate = std::min(packet.rate, given);
	}

	void back(RatedPacket &)
	{
	}

      private:
	void adapt(Time now, uint64_t queued)
	{
		if (now < next_)
			return;
		const uint64_t per_second = uint64_t(SECOND / link_.rtt()), full = link_.full();
		const uint64_t seen = std::min(full, came_ * per_second);
		const uint64_t more = full + settings_.alpha * (full - seen) / 100;
		const uint64_t drain = settings_.beta * (queued * per_second) / 100;
		capacity_ = more > drain ? more - drain : 0;
		came_ = 0;
		next_ = now + link_.rtt();
	}

	Settings settings_;
	LinkRate link_;
	uint64_t capacity_, demand_ = 0, reserved_ = 0, came_ = 0;
	Time next_ = 0;
};

} // namespace sim

#endif
