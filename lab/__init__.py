"""The lab: a leaf-spine fabric of real TCP on one machine, traffic for it, and what came of it."""
