/*
 * Units of the simulator: time in integer picoseconds, sizes in bytes, rates as picoseconds a byte. No clock, no float:
 * 8e12 / rate must be whole (1, 10, 25, 40, 100, 160, 400 Gb/s are), so that every time is exact.
 */
#ifndef QCLIMB_SIM_UNITS_H
#define QCLIMB_SIM_UNITS_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace sim
{

using Time = int64_t; /* picoseconds since the run began; 63 bits are 106 days */

constexpr Time NEVER = INT64_MAX;
constexpr Time MOST_TIME = Time(1) << 62; /* of a flow's start and a run's end: what they set off fits in, too */

/* What must hold after every event; costs time, so only in builds that ask for it (the tests run those). */
#ifdef SIM_CHECKS
#define SIM_CHECK(condition, text)                                                                                     \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			std::fprintf(stderr, "invariant: %s (%s:%d)\n", text, __FILE__, __LINE__);                     \
			std::exit(70);                                                                                 \
		}                                                                                                      \
	} while (0)
#else
#define SIM_CHECK(condition, text)                                                                                     \
	do {                                                                                                           \
	} while (0)
#endif

/* A hash of two numbers (splitmix64's finalizer): ECMP and seeds; equal on every machine. */
inline uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a + 0x9e3779b97f4a7c15ULL * (b + 1);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

} // namespace sim

#endif
