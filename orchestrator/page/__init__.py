"""The page at `/`: plain files that a browser loads from the orchestrator alone.

`static/vendor/` has uPlot 1.6.32 (https://github.com/leeoniya/uPlot, MIT, its text beside it) as released: charts.
"""
