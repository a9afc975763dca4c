"""The table of contents."""

from lab.figures.page import Page
from lab.figures.pages.bigspine import fluid, packets, with_qclimb
from lab.figures.pages.optax import facebook, mixed, small
from lab.figures.pages.pdq import aggregation
from lab.figures.pages.pfabric import fig16, fig17
from lab.figures.pages.product import thresholds
from lab.figures.pages.qclimb import bounds, dctcp, errors, fig23, fig23_why, fig24, known, recorded, settings, tables

QCLIMB_JOBS = (fig24.PAGE, errors.PAGE, settings.PAGE_21, settings.PAGE_27, settings.PAGE_28, tables.PAGE)
QCLIMB = (
    bounds.PAGE,
    fig23.PAGE,
    fig23_why.PAGE,
    dctcp.PAGE,
    *QCLIMB_JOBS,
    recorded.PAGE,
    recorded.PAGE_22,
    known.PAGE,
)
BIGSPINE = (fluid.PAGE_A, fluid.PAGE_C, fluid.PAGE_VARIANTS, packets.PAGE, with_qclimb.PAGE)
PFABRIC = (fig16.PAGE, fig17.A, fig17.B, fig17.C)
OPTAX = (*small.PAGES, *mixed.PAGES, facebook.PAGE)
PAGES: dict[str, Page] = {
    page.name: page for page in (*QCLIMB, *BIGSPINE, *PFABRIC, *aggregation.PAGES, *OPTAX, thresholds.PAGE)
}
