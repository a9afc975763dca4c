"""Trains and checks a model; runs in the training process."""

from .errors import TrainingError
from .flows import Rows
from .trainer import Trained


def train(
    rows: Rows, hosts: list[str], generation: int, trees: int, depth: int, features: list[str] | None, seed: int
) -> Trained:
    """Not there yet."""
    raise TrainingError("models: training is not built yet")
