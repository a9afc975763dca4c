"""The table of contents."""

from lab.figures.bigspine_5a import PAGE as BIGSPINE_5A
from lab.figures.page import Page
from lab.figures.qclimb_23 import PAGE as QCLIMB_23

PAGES: dict[str, Page] = {page.name: page for page in (QCLIMB_23, BIGSPINE_5A)}
