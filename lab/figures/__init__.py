"""The book: each page is a small module with its settings, its runs, and its table and plot beside the paper's numbers.

`qclimb figures` lists the pages, `qclimb figures NAME` runs, caches and draws one.
"""
