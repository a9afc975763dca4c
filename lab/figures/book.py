"""The table of contents."""

from lab.figures.bigspine_5a import PAGE as BIGSPINE_5A
from lab.figures.page import Page
from lab.figures.qclimb_23 import PAGE as QCLIMB_23
from lab.figures.qclimb_23_why import PAGE as QCLIMB_23_WHY
from lab.figures.qclimb_errors import PAGE as QCLIMB_ERRORS

PAGES: dict[str, Page] = {page.name: page for page in (QCLIMB_23, QCLIMB_23_WHY, QCLIMB_ERRORS, BIGSPINE_5A)}
