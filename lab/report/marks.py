"""Pages of which a run writes one part and a person another: the two are told apart by a pair of marks."""


def parted(text: str, begin: str, end: str) -> tuple[str, str, str]:
    """What stands before the marks, between them, and after them; of a text that lacks one, all stands before."""
    before, found, rest = text.partition(begin)
    between, ended, after = rest.partition(end)
    return (before, between, after) if found and ended else (text, "", "")
