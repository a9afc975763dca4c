/*
 * qclimb-sim KEY=VALUE...: flows on stdin, results on stdout (core/stream.h). `lab.sim` is its face.
 * The schemes' headers come ahead of this, by the Makefile.
 */
#include "core/scheme.h"

int main(int argc, char **argv)
{
	return sim::Scheme::run(sim::Config::read(argc, argv));
}
