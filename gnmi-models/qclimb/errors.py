"""What can be wrong with the contract's values, one tree:

    QclimbError
    |-- PolicyError   a host policy, as a value, as JSON or as the file /run/qclimb/policy
    |-- IntentError   a switch intent, as a value, as gNMI JSON or as CONFIG_DB rows
    |   `-- HalfIntent  rows of which some are still to come
    |-- RecordError   flow records and the histograms made of them
    |-- ModelError    a forest, as a value or as the file /run/qclimb/model
    |-- LengthError   a rule for announced lengths, as a value, as JSON or as the file /run/qclimb/lengths
    `-- EndpointError an address, a name, a token or a CA by which no orchestrator can be asked

Each message is one sentence that names the place, the value found there and what was expected.
"""


class QclimbError(Exception):
    """A value of the contract is not what the contract says."""


class PolicyError(QclimbError):
    """A host policy that no host could follow."""


class IntentError(QclimbError):
    """A switch intent that no switch could follow."""


class HalfIntent(IntentError):
    """Rows of an intent of which some are still to come, by its digest."""


class NewerRows(IntentError):
    """Rows that a newer qclimb wrote: nobody here can tell what they mean."""


class RecordError(QclimbError):
    """A flow record or size histogram that no flow could have left behind."""


class ModelError(QclimbError):
    """A forest that would not answer, or not in bounded time."""


class LengthError(QclimbError):
    """A rule for announced lengths that no library could follow."""


class EndpointError(QclimbError):
    """An address, a name, a token or a CA by which no orchestrator can be asked."""
