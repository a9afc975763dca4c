"""What a comparison says, for a terminal, a README and a browser."""

from lab.report.comparison import Comparison
from lab.report.html import write_html
from lab.report.tables import markdown, print_comparison
from lab.report.verdicts import Verdict, verdicts

__all__ = ["Comparison", "Verdict", "markdown", "print_comparison", "verdicts", "write_html"]
