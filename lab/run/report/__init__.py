"""What a comparison says, for a terminal, a README and a browser."""

from lab.run.report.comparison import Comparison
from lab.run.report.results import about, finish
from lab.run.report.tables import markdown
from lab.run.report.verdicts import Verdict, verdicts

__all__ = ["Comparison", "Verdict", "about", "finish", "markdown", "verdicts"]
