"""A packet-level simulator: `run(Experiment(...)) -> Results`. README.md begins with an example."""

from lab.sim.bcube import BCube
from lab.sim.errors import EngineError, ExperimentError, SimulationError
from lab.sim.experiment import Experiment, Watch
from lab.sim.fattree import FatTree
from lab.sim.forecast import Exact, Known, Leaves, Nothing
from lab.sim.homa import Homa, homa_for
from lab.sim.jellyfish import Jellyfish
from lab.sim.jobs import Jobs
from lab.sim.linear import Linear
from lab.sim.matrix import AllToAll, Incast, Permutation, Staggered, Stride, ToRack
from lab.sim.pfabric import Pfabric
from lab.sim.rated import D3, FlowLevel, Pdq, Rcp
from lab.sim.results import Counters, Results
from lab.sim.runner import run, stream
from lab.sim.scheme import Can, Scheme, Told
from lab.sim.schemes import NAMED, scheme_named
from lab.sim.tcp import Tcp
from lab.sim.topology import Topology, single_rooted_tree, star
from lab.sim.workload import Bursty, FlowList, Poisson, Workload

__all__ = [
    "D3",
    "NAMED",
    "AllToAll",
    "BCube",
    "Bursty",
    "Can",
    "Counters",
    "EngineError",
    "Exact",
    "Experiment",
    "ExperimentError",
    "FatTree",
    "FlowLevel",
    "FlowList",
    "Homa",
    "Incast",
    "Jellyfish",
    "Jobs",
    "Known",
    "Leaves",
    "Linear",
    "Nothing",
    "Pdq",
    "Permutation",
    "Pfabric",
    "Poisson",
    "Rcp",
    "Results",
    "Scheme",
    "SimulationError",
    "Staggered",
    "Stride",
    "Tcp",
    "ToRack",
    "Told",
    "Topology",
    "Watch",
    "Workload",
    "homa_for",
    "run",
    "scheme_named",
    "single_rooted_tree",
    "star",
    "stream",
]
