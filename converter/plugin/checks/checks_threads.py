"""Checks that a plugin can be used from several threads at once, as builders and applications with several engines do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from trtsmith.converter.plugin.checks.checks import CheckFailedError, ContractCheck, CreatorUnderTest
from trtsmith.converter.plugin.checks.checks_state import answers, require_same
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.host import Plugin, PluginError

THREADS = 4
ROUNDS = 10


def several_threads(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Clones of one plugin, and plugins of one creator, are made and asked in several threads at once."""
    fields = session.fields(case)
    with session.configured(case) as plugin, session.create(case) as fresh:
        wanted, wanted_fresh = answers(plugin, case), answers(fresh, case)

        def cloned(thread: int) -> None:
            _ask(plugin.clone, case, wanted, f"a clone made in thread {thread} of {THREADS}")

        def created(thread: int) -> None:
            def make() -> Plugin:
                return session.creator.create(fields)

            _ask(make, case, wanted_fresh, f"a plugin created in thread {thread} of {THREADS}")

        for work in (cloned, created):
            _at_once(work)
    return f"{THREADS} threads, {ROUNDS} times"


def _ask(make: Callable[[], Plugin], case: ContractCase | None, wanted: dict[str, object], who: str) -> None:
    for _ in range(ROUNDS):
        try:
            made = make()
        except PluginError as error:
            raise CheckFailedError(f"{who} failed: {error.message}", "what one thread alone gets") from error
        with made:
            require_same(made, case, wanted, who)


def _at_once(work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... in threads that start together; raises what the first of them raised."""
    start = threading.Barrier(THREADS)
    raised: list[BaseException] = []

    def run(thread: int) -> None:
        start.wait()
        try:
            work(thread)
        except BaseException as error:  # it belongs to the caller, in whichever thread it came up
            raised.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


THREAD_CHECKS = (ContractCheck("several threads", several_threads, "plugin"),)
