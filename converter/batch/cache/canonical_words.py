"""Brings a command line into a form that is the same wherever its files lie, and in whatever order its options stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

SILENT = frozenset({"-q", "--quiet", "-v", "--verbose"})
"""Options that change what is said, and nothing that is made."""

_BEFORE_A_PATH = "=@:,"
"""What stands before a path inside a word: --inputs=/a.npz, grid=@/b.npy, output:/c."""

PathName = Callable[[str], "str | None"]
"""What stands for a path; None: it is none that is known, and stays."""


def canonical_words(words: Sequence[str], path_name: PathName) -> list[list[str]]:
    """[[option, value, ...], ...] in the order of the options' names.

    An option that is repeated keeps the order of its values, and so do --mend and --no-mend, the last of which counts.
    """
    options = [option for option in _options(words) if option[0] not in SILENT]
    options.sort(key=lambda option: option[0].replace("--no-", "--", 1))
    return [[option[0], *(_with_names(value, path_name) for value in option[1:])] for option in options]


def last_value(words: Sequence[str], flag: str, default: str) -> str:
    """The value that argparse would take for an option that has one."""
    return next((o[1] for o in reversed(list(_options(words))) if o[0] == flag and len(o) > 1), default)


def has_option(words: Sequence[str], flag: str) -> bool:
    return any(option[0] == flag for option in _options(words))


def paths_named(words: Sequence[str], path_name: PathName) -> Iterator[str]:
    """The paths in the words that have a name."""
    for option in _options(words):
        for value in option[1:]:
            start = _path_at(value, path_name)
            if start is not None:
                yield value[start:]


def renamed_paths(words: Sequence[str], path_name: PathName) -> list[str]:
    """The words as they are, but for the names of paths in the place of these."""
    return [_with_names(word, path_name) for word in words]


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """Each option with what follows it; what stands before the first has an option without a name."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and word[1:2].strip("0123456789."):
            if option:
                yield option
            name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            option = [name, value] if equals else [name]
        else:
            option = [*(option or [""]), word]
    if option:
        yield option


def _with_names(value: str, path_name: PathName) -> str:
    start = _path_at(value, path_name)
    return value if start is None else f"{value[:start]}{path_name(value[start:])}"


def _path_at(value: str, path_name: PathName) -> int | None:
    """Where the path begins that is the end of this word; the longest that is known."""
    for place, character in enumerate(value):
        begins = character == os.sep and (place == 0 or value[place - 1] in _BEFORE_A_PATH)
        if begins and path_name(value[place:]) is not None:
            return place
    return None


def below(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Those of the files that lie in the folder, at any depth."""
    return [file for file in files if folder in file.parents]
