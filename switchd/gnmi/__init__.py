"""The switch's gNMI door: one set of stubs in a process, those that pygnmi ships (gNMI 0.8.0)."""
