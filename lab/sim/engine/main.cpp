/*
 * qclimb-sim KEY=VALUE...: flows on stdin, results on stdout (core/stream.h). `lab.sim` is its face.
 */
#include "core/run.h"
#include "schemes/fluid.h"
#include "schemes/homa.h"
#include "schemes/pfabric.h"
#include "schemes/tcp.h"

int main(int argc, char **argv)
{
	const sim::Config config = sim::Config::read(argc, argv);
	const std::string scheme = config.text("scheme");

	if (scheme == "pfabric")
		return sim::Run<sim::Pfabric>(config).run();
	if (scheme == "tcp")
		return sim::Run<sim::Tcp>(config).run();
	if (scheme == "fluid")
		return sim::Fluid(config).run();
	if (scheme == "homa")
		return sim::Run<sim::Homa>(config).run();
	sim::refuse("scheme is " + scheme + ", expected pfabric, tcp, homa or fluid");
}
