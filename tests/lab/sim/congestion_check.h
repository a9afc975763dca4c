/*
 * DCTCP's alpha, seen by what the first mark of a window takes.  Usage: congestion_check ALPHA_1024THS WINDOWS
 * Prints the window before and after the first mark, which comes after WINDOWS windows without one.
 */
#include "schemes/congestion.h"

static int congestion_check(char **argv)
{
	std::string words[] = { "congestion_check",	 "initial_window=1000",	      "max_window=1000",
				"dctcp=1",		 "least_timeout_ps=1000000", "first_timeout_ps=1000000",
				"dctcp_alpha_1024ths=" };
	char *given[7];

	words[6] += argv[1];
	for (int i = 0; i < 7; i++)
		given[i] = words[i].data();
	const sim::CongestionSettings settings(sim::Config::read(7, given));
	sim::Congestion congestion;
	uint32_t first = 0;

	congestion.begin(settings);
	for (int window = 0; window < std::atoi(argv[2]); window++, first += 1000)
		congestion.acked(settings, 1000, false, first + 1000, first + 2000);
	const uint32_t before = congestion.window();
	congestion.acked(settings, 1, true, first + 1, first + 1000);
	std::printf("%u %u\n", before, congestion.window());
	return 0;
}
