"""The same made-up flows as the orchestrator's tests have."""

from tests.orchestrator.conftest import records

__all__ = ["records"]
