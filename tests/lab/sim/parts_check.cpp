/*
 * The checks of the engine's parts as one program, so that the headers are compiled once.  Usage: parts_check NAME ARGUMENTS
 */
#include "calendar_check.h"
#include "congestion_check.h"
#include "ranks_check.h"

int main(int, char **argv)
{
	const std::string name = argv[1];

	if (name == "calendar_check")
		return calendar_check(argv + 1);
	return name == "ranks_check" ? ranks_check(argv + 1) : congestion_check(argv + 1);
}
