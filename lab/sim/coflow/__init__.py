"""Coflows (tasks) and their schedulers, rate by rate: `run_coflows(CoflowExperiment(...))`. Packet by packet they are a
FlowList with tasks under the schemes of lab.sim.tasks."""

from lab.sim.coflow.coflows import Coflows
from lab.sim.coflow.experiment import NAMED, Aalo, CoflowExperiment, CoflowResults, Policy, run_coflows
from lab.sim.coflow.trace import read_trace

__all__ = [
    "NAMED",
    "Aalo",
    "CoflowExperiment",
    "CoflowResults",
    "Coflows",
    "Policy",
    "read_trace",
    "run_coflows",
]
