"""OPTAX's pages."""
