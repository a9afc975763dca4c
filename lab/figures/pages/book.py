"""The table of contents."""

from lab.figures.page import Page
from lab.figures.pages.bigspine import fluid, packets, with_qclimb
from lab.figures.pages.optax import facebook, mixed, small
from lab.figures.pages.pdq import (
    aggregation,
    aging,
    deadlines,
    dynamics,
    example,
    multipath,
    patterns,
    resilience,
    scale,
    workloads,
)
from lab.figures.pages.pdq.settings import unloaded
from lab.figures.pages.pfabric import fig16, fig17, section7
from lab.figures.pages.product import thresholds
from lab.figures.pages.qclimb import (
    beside,
    bounds,
    dctcp,
    errors,
    fig23,
    fig23_why,
    fig24,
    known,
    mixing,
    recorded,
    settings,
    tables,
)

QCLIMB_JOBS = (fig24.PAGE, errors.PAGE, settings.PAGE_21, settings.PAGE_27, settings.PAGE_28, tables.PAGE)
QCLIMB_MIXED = (mixing.PAGE_13, beside.PAGE, mixing.PAGE_20, mixing.PAGE_FOUR)
QCLIMB = (
    bounds.PAGE,
    fig23.PAGE,
    fig23_why.PAGE,
    dctcp.PAGE,
    *QCLIMB_JOBS,
    recorded.PAGE,
    recorded.PAGE_22,
    *QCLIMB_MIXED,
    known.PAGE,
)
BIGSPINE = (fluid.PAGE_A, fluid.PAGE_C, fluid.PAGE_VARIANTS, packets.PAGE, with_qclimb.PAGE)
PFABRIC = (fig16.PAGE, fig17.A, fig17.B, fig17.C, section7.STABILITY, *unloaded(section7.GROUPS))
PDQ = (
    *aggregation.PAGES,
    *unloaded(
        *(example.PAGE, deadlines.PAGE, patterns.PAGE_A, patterns.PAGE_B, workloads.PAGE_A),
        *(dynamics.PAGE_6, dynamics.PAGE_7, *scale.PAGES_A_TO_D, scale.PAGE_E, aging.PAGE),
        *(resilience.PAGE_9A, resilience.PAGE_9B, resilience.PAGE_10),
        *(multipath.PAGE_A, multipath.PAGE_B, multipath.PAGE_C),
    ),
    *(workloads.PAGE_B, workloads.PAGE_C),
)
OPTAX = (*small.PAGES, *mixed.PAGES, facebook.PAGE)
PAGES: dict[str, Page] = {page.name: page for page in (*QCLIMB, *BIGSPINE, *PFABRIC, *PDQ, *OPTAX, thresholds.PAGE)}
