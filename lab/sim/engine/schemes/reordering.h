/*
 * QCLIMB's receiver (NSDI'24, 3.2.1): which of the missing packets are lost and not merely overtaken.
 *
 * The rule. A packet of priority p has arrived. Every packet that its sender sent earlier over the same path at p, or at
 * a priority served before p, would have arrived too: those that did not are lost. A flow's priorities fall to 0 and
 * rise again (priority.h's invariant), so between two packets of one priority p there is none served after p: *a gap
 * between two packets of one priority is loss*, all of it. A gap where the priority changes may be either, and is left
 * to the next packet of that priority, or to the timeout. Each loss is told once; packets sent again count for nothing.
 *
 * It needs one path a flow (ecmp): under spraying, and between the spines of a Big-Spine, packets overtake for other
 * reasons, and what is then told as lost may be sent again in vain.
 */
#ifndef QCLIMB_SIM_SCHEMES_REORDERING_H
#define QCLIMB_SIM_SCHEMES_REORDERING_H

#include "core/packet.h"

#include <qclimb/priority.h>

namespace sim
{

class LossByPriority
{
      public:
	/* Writes into the ACK-to-be the range in which every packet that is missing is lost: nothing if empty. */
	void arrived(WidePacket &packet)
	{
		if (packet.is_again)
			return;
		uint32_t &last = last_[packet.rank & (QCLIMB_MAX_PRIORITIES - 1)];
		if (last && packet.seq > last) {
			packet.told_first = last;
			packet.told_end = packet.seq;
		}
		last = packet.seq + 1;
	}

      private:
	uint32_t last_[QCLIMB_MAX_PRIORITIES] = {}; /* of each priority: one past its last packet; 0: none yet */
};

} // namespace sim

#endif
