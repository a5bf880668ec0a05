"""The stand-in of a GPU that tests of searches share."""

from tests.converter.tune.emulated_card import emulated_card

__all__ = ("emulated_card",)
