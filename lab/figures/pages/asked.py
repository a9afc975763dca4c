"""Which figure of the papers stands on which page: what the book was to hold, and where that is."""

from __future__ import annotations

from lab.figures.index import Asked

TESTBED = "the paper's is its testbed's; here asked of the simulated fabric"
ASKED = (
    Asked(
        "QCLIMB Figs. 3 and 26",
        (),
        "worked examples of the rule: Fig. 26's mean FCTs, 7.5 by sizes foretold and 6 by lower bounds, come out of "
        "`hostlib/core`'s own rule (`tests/core`)",
    ),
    Asked("QCLIMB appendix A", ("qclimb-errors", "qclimb-recorded"), "its figure is Fig. 25"),
    Asked("QCLIMB Table 2, observations O1 to O3", ("qclimb-bounds",), "on recorded traffic"),
    Asked("QCLIMB Fig. 14", ("qclimb-errors", "qclimb-recorded"), TESTBED),
    Asked("QCLIMB Fig. 15", ("qclimb-errors",), TESTBED),
    Asked("QCLIMB Fig. 21", ("qclimb-21", "qclimb-21-four"), TESTBED),
    Asked("QCLIMB Fig. 22", ("qclimb-22",), TESTBED),
    Asked("QCLIMB Fig. 23", ("qclimb-23", "qclimb-24", "qclimb-dctcp", "qclimb-23-why", "qclimb-recorded")),
    Asked("QCLIMB Fig. 24", ("qclimb-23", "qclimb-24", "qclimb-recorded")),
    Asked("QCLIMB Fig. 25", ("qclimb-errors", "qclimb-recorded")),
    Asked("QCLIMB Fig. 27", ("qclimb-27",), TESTBED),
    Asked("QCLIMB Figs. 28 and 29", ("qclimb-28",)),
    Asked("QCLIMB Table 3", ("qclimb-tables",), TESTBED),
    Asked("QCLIMB Table 4", ("qclimb-tables",)),
    Asked("QCLIMB Table 5", ("qclimb-24",)),
    Asked("Big-Spine Figs. 5a and 5b", ("bigspine-5a", "bigspine-variants", "bigspine-packets")),
    Asked("Big-Spine Figs. 5c, 5d and 5e", ("bigspine-5c", "bigspine-packets"), "mice, medium flows, elephants"),
    Asked("QCLIMB Fig. 13", ("qclimb-13",), TESTBED),
    Asked("QCLIMB Figs. 19 and 20", ("qclimb-19", "qclimb-20"), TESTBED),
    Asked("PDQ Fig. 1", ("pdq-1",)),
    Asked("PDQ Figs. 3a and 3b", ("pdq-3a", "pdq-3b"), "with eight priorities of stock switches beside"),
    Asked("PDQ Fig. 3c", ("pdq-3c",), "with eight priorities of stock switches beside"),
    Asked("PDQ Figs. 3d and 3e", ("pdq-3d", "pdq-3e")),
    Asked("PDQ Fig. 4", ("pdq-4a", "pdq-4b")),
    Asked("PDQ Fig. 5", ("pdq-5a", "pdq-5b", "pdq-5c"), "5c by the study's sizes: its trace cannot be had"),
    Asked("PDQ Figs. 6 and 7", ("pdq-6", "pdq-7")),
    Asked("PDQ Fig. 8", ("pdq-8a", "pdq-8b", "pdq-8c", "pdq-8d", "pdq-8e")),
    Asked("PDQ Figs. 9 and 10", ("pdq-9a", "pdq-9b", "pdq-10")),
    Asked("PDQ Fig. 11", ("pdq-11a", "pdq-11b", "pdq-11c")),
    Asked("PDQ Fig. 12", ("pdq-12",), "250 servers: no fat-tree has 256"),
    Asked("OPTAX Figs. 10, 11 and 12", ("optax-10", "optax-11", "optax-12")),
    Asked("OPTAX Fig. 13 and Table 1", ("optax-13",)),
    Asked("OPTAX Fig. 14", ("optax-14", "optax-fb2010"), "with Aalo beside Varys; and on the Facebook trace"),
    Asked("pFabric Fig. 16", ("pfabric-16",)),
    Asked("pFabric Fig. 17a", ("pfabric-17a",)),
    Asked("pFabric Fig. 17b", ("pfabric-17b",)),
    Asked("pFabric Fig. 17c", ("pfabric-17c",)),
    Asked(
        "pFabric section 7", ("pfabric-linear", "pfabric-groups"), "words without figures: stability, weighted classes"
    ),
    Asked(
        "PIAS with both of its threshold sets and with ours",
        ("qclimb-24", "qclimb-23-why", "thresholds"),
        "three traces in jobs; PageRank's, independent and in jobs; nine workloads",
    ),
)
