"""For all tests: hypothesis tries the same examples at every run, however slow the machine is.

A run of the tests is to say whether a change broke something; it is no search. `pytest --hypothesis-profile=search`
searches: 50 times as many examples, other ones each time.
"""

from hypothesis import HealthCheck, settings

SLOW_IS_NOT_WRONG = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("same", derandomize=True, database=None, **SLOW_IS_NOT_WRONG)
settings.register_profile("search", max_examples=5000, database=None, print_blob=True, **SLOW_IS_NOT_WRONG)
settings.load_profile("same")
