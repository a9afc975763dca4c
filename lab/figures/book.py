"""The table of contents."""

from lab.figures import pfabric_17
from lab.figures.bigspine_5a import PAGE as BIGSPINE_5A
from lab.figures.bigspine_5c import PAGE as BIGSPINE_5C
from lab.figures.bigspine_packets import PAGE as BIGSPINE_PACKETS
from lab.figures.bigspine_qclimb import PAGE as BIGSPINE_QCLIMB
from lab.figures.bigspine_variants import PAGE as BIGSPINE_VARIANTS
from lab.figures.page import Page
from lab.figures.pfabric_16 import PAGE as PFABRIC_16
from lab.figures.qclimb_23 import PAGE as QCLIMB_23
from lab.figures.qclimb_23_why import PAGE as QCLIMB_23_WHY
from lab.figures.qclimb_24 import PAGE as QCLIMB_24
from lab.figures.qclimb_bounds import PAGE as QCLIMB_3
from lab.figures.qclimb_errors import PAGE as QCLIMB_ERRORS
from lab.figures.qclimb_recorded import PAGE as QCLIMB_RECORDED
from lab.figures.qclimb_recorded import PAGE_22
from lab.figures.qclimb_settings import PAGE_21, PAGE_27, PAGE_28
from lab.figures.qclimb_tables import PAGE as QCLIMB_TABLES
from lab.figures.thresholds import PAGE as THRESHOLDS

QCLIMB_JOBS = (QCLIMB_24, QCLIMB_ERRORS, PAGE_21, PAGE_27, PAGE_28, QCLIMB_TABLES)
QCLIMB = (QCLIMB_3, QCLIMB_23, QCLIMB_23_WHY, *QCLIMB_JOBS, QCLIMB_RECORDED, PAGE_22)
BIGSPINE = (BIGSPINE_5A, BIGSPINE_5C, BIGSPINE_VARIANTS, BIGSPINE_PACKETS, BIGSPINE_QCLIMB)
PFABRIC = (PFABRIC_16, pfabric_17.A, pfabric_17.B, pfabric_17.C)
PAGES: dict[str, Page] = {page.name: page for page in (*QCLIMB, *BIGSPINE, *PFABRIC, THRESHOLDS)}
