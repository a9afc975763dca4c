"""For all tests: hypothesis tries the same examples at every run, however slow the machine is.

A run of the tests is to say whether a change broke something; it is no search. `make test-system` tries more examples
(`--hypothesis-profile=wide`), and `pytest --hypothesis-profile=search` searches: others each time, and very many.

Python keeps what it has compiled, even where the environment forbids it, as many a container's does: tests start Python
hundreds of times.
"""

import os
import sys

from hypothesis import HealthCheck, settings

from tests.tiers import USUAL_EXAMPLES

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SLOW_IS_NOT_WRONG = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("same", max_examples=USUAL_EXAMPLES, derandomize=True, database=None, **SLOW_IS_NOT_WRONG)
settings.register_profile("wide", max_examples=200, derandomize=True, database=None, **SLOW_IS_NOT_WRONG)
settings.register_profile("search", max_examples=5000, database=None, print_blob=True, **SLOW_IS_NOT_WRONG)
settings.load_profile("same")
