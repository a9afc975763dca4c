/*
 * qclimb-sim KEY=VALUE...: flows on stdin, results on stdout (core/stream.h). `lab.sim` is its face.
 */
#include "coflow/run.h"
#include "core/run.h"
#include "links/d3.h"
#include "links/pdq.h"
#include "links/rcp.h"
#include "schemes/flowlevel.h"
#include "schemes/fluid.h"
#include "schemes/homa.h"
#include "schemes/ictcp.h"
#include "schemes/optax.h"
#include "schemes/pfabric.h"
#include "schemes/rated.h"
#include "schemes/tcp.h"

int main(int argc, char **argv)
{
	const sim::Config config = sim::Config::read(argc, argv);

	switch (config.choice("scheme", { "pfabric", "tcp", "homa", "pdq", "rcp", "d3", "flow", "fluid", "coflow",
					  "optax", "ictcp" })) {
	case 0:
		if (!config.numbers("group_weights", sim::MOST_WEIGHT).empty())
			return sim::Run<sim::PfabricOver<sim::GroupedRanks>>(config).run();
		return sim::Run<sim::Pfabric>(config).run();
	case 1:
		return sim::Run<sim::Tcp>(config).run();
	case 2:
		return sim::Run<sim::Homa>(config).run();
	case 3:
		if (config.count("subflows", 1, sim::MAX_PARTS) > 1)
			return sim::Run<sim::Rated<sim::PdqRule, sim::MAX_PARTS>>(config).run();
		return sim::Run<sim::Rated<sim::PdqRule>>(config).run();
	case 4:
		return sim::Run<sim::Rated<sim::RcpRule>>(config).run();
	case 5:
		return sim::Run<sim::Rated<sim::D3Rule>>(config).run();
	case 6:
		return sim::FlowLevel(config).run();
	case 7:
		return sim::Fluid(config).run();
	case 8:
		return sim::coflow::Fluid(config).run();
	case 9:
		return sim::Run<sim::TcpOver<sim::OptaxReceiver>>(config).run();
	default:
		return sim::Run<sim::TcpOver<sim::IctcpReceiver>>(config).run();
	}
}
