/*
 * What coflows are to the fluid model: flows as liquids between the ports of one switch that is never the bottleneck.
 *
 * A *coflow* is the flows of one job stage; it is over when the last of them is. Ports 0 to n - 1 are where the n hosts
 * send, n to 2n - 1 where they receive; a port carries `capacity` bytes a second. Rates are set at moments (run.h) and
 * hold until the next one. Doubles throughout: bytes, bytes a second, seconds.
 */
#ifndef QCLIMB_SIM_COFLOW_STATE_H
#define QCLIMB_SIM_COFLOW_STATE_H

#include "core/units.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace sim::coflow
{

constexpr double FOREVER = std::numeric_limits<double>::infinity();
constexpr double NOTHING_LEFT = 1e-9; /* of a port's capacity: less than that is taken for none */

struct Flow {
	uint64_t index;
	uint64_t size_bytes;
	uint32_t from, to; /* ports */
	double left; /* bytes */
	double rate = 0;
};

struct Coflow {
	uint64_t task = 0;
	Time start_ps = 0;
	uint64_t number = 0; /* by arrival */
	double begins = 0, due = FOREVER; /* seconds */
	double sent = 0; /* bytes, of all its flows */
	uint64_t largest_bytes = 0; /* of its flows */
	uint32_t queue = 0; /* Aalo's */
	std::vector<Flow> flows; /* those that are not over */

	double bytes_left() const
	{
		double sum = 0;

		for (const Flow &flow : flows)
			sum += flow.left;
		return sum;
	}
};

using Coflows = std::vector<Coflow *>;

/* What ports have left to give. */
struct Left {
	std::vector<double> rate;
	double least; /* below it a port has none */

	Left(uint32_t ports, double capacity) : rate(ports, capacity), least(capacity * NOTHING_LEFT)
	{
	}

	bool has(uint32_t port) const
	{
		return rate[port] > least;
	}
	void take(const Flow &flow, double amount)
	{
		rate[flow.from] = std::max(0.0, rate[flow.from] - amount);
		rate[flow.to] = std::max(0.0, rate[flow.to] - amount);
	}
};

} // namespace sim::coflow

#endif
