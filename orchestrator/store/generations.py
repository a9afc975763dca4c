"""Generations of policies, intents and models: a number that grows, and a random epoch behind it.

A database that is restored from a backup counts on from an older number. With the number alone a host or a switch that
knows the lost one of the same number would take the next for what it has, and keep what it has. Whoever follows a
generation compares for equality.
"""

import secrets

EPOCHS = 10**10
"""Ten decimal digits behind the number, which stays legible; below 2^53 for 900,000 rollouts."""


def new(number: int) -> int:
    """The generation that a rollout, or a model, of this number brings; another one with each call."""
    return number * EPOCHS + secrets.randbelow(EPOCHS)


def number_of(generation: int) -> int:
    """The rollout's, or model's, number; of generations of older versions, which had no epoch, themselves."""
    return generation // EPOCHS or generation


def new_off() -> int:
    """The generation of a policy that switches hosts off: below all that have an epoch, and of no rollout."""
    return 1 + secrets.randbelow(EPOCHS - 1)
