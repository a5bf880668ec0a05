"""Checks that a library may be loaded repeatedly, as by two registries or two TensorRTs of one process."""

from __future__ import annotations

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
)
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import PluginError


def _ask_again(session: CreatorUnderTest, finder: abi.Finder, when: str) -> None:
    try:
        session.creator.library.ask_again(finder)
    except PluginError as error:
        if error.status is abi.Status.UNSUPPORTED:
            raise NotTestableError(error.message) from error
        if error.status is abi.Status.BROKEN:
            raise CheckFailedError(
                f"{when} {error.message}",
                "the creators of the first time, at the same addresses, which live as long as the library",
                "keep them in static variables",
            ) from error
        raise


def creators_kept(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """A library that is loaded already gives the same creators again."""
    for _ in range(2):
        _ask_again(session, abi.Finder.KEPT, "asked again,")
    return None


def logger_finder(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """setLoggerFinder may come after getCreators, again, and with null, for an application without a logger."""
    for finder, when in (
        (abi.Finder.OURS, "after setLoggerFinder was called again,"),
        (abi.Finder.NULL, "after setLoggerFinder was called with null,"),
        (abi.Finder.OURS, "after setLoggerFinder was called with null and then with a finder,"),
    ):
        _ask_again(session, finder, when)
    return None


LIBRARY_CHECKS = (
    ContractCheck("creators asked again", creators_kept, "creator"),
    ContractCheck("logger finder set again", logger_finder, "creator"),
)
