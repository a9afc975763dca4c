/*
 * RCP as PDQ's paper runs it (section 5.1): a link's flows share its capacity alike, and the link knows exactly how many
 * there are, from their first packet to their last.
 */
#ifndef QCLIMB_SIM_LINKS_RCP_H
#define QCLIMB_SIM_LINKS_RCP_H

#include "links/rated.h"

namespace sim
{

class RcpRule
{
      public:
	using Part = RatedPart;
	static constexpr bool ASKS = false; /* who sends, once a round trip, for what it wants */
	static constexpr bool BY_LEAST_RTT = false; /* of the two that senders measure; else the average */

	struct Settings {
		Time rtt;

		explicit Settings(const Config &config) : rtt(config.number("rtt_ps", 1, SECOND))
		{
		}
	};

	RcpRule(uint32_t, Time ps_per_byte, const Settings &settings) : link_(ps_per_byte, settings.rtt, BY_LEAST_RTT)
	{
	}

	void out(RatedPacket &packet, Part &flow, Time now, uint64_t queued)
	{
		link_.passed(packet, flow, now, queued);
		if (packet.type != Type::TERM)
			packet.rate = std::min(packet.rate, link_.capacity() / link_.flows());
	}

	void back(RatedPacket &)
	{
	}

      private:
	LinkRate link_;
};

} // namespace sim

#endif
