"""Names arguments of the public API in messages that were written with the flags of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.options.kinds import OptionKind

T = TypeVar("T")

_FLAG = re.compile(
    r"`[^`]*`|\btrtsmith [a-z]+ [^;]*|\bpolygraphy [^;,]*"  # commands of a terminal stay as they are
    r"|(?<![\w-])(?:--(?=[a-z]{2})|-(?=o ))(?P<flag>[a-z][a-z0-9-]*)(?:[ =](?P<value>'[^']*'|[^\s;()'\"]*[^\s;,()'\".:]))?"
)
_VALUE = re.compile(r"'.*'|.*[0-9=/:*.\[].*|[A-Z][A-Z_|]*(?:\.[a-z]+)?")
"""A word behind a flag that is its value, and not one of the sentence: quoted, a number, a file, a range, or CAPITALS."""

_NONE = {"no-verify": "verify"}
"""By flag, the argument that is None instead."""


class ArgumentWords:
    """The arguments of one function. kinds: by name; None of those that are no options. flags: names, by other flags."""

    def __init__(self, kinds: Mapping[str, OptionKind | None], flags: Mapping[str, str]) -> None:
        self._kinds, self._flags = kinds, flags

    def said(self, text: str) -> str:
        """The text with the function's arguments in the place of their flags: "force=True" for "--force"."""
        return _FLAG.sub(self._argument, text)

    def _argument(self, found: re.Match[str]) -> str:
        flag, value = found["flag"], found["value"]
        if flag is None:
            return found[0]
        rest = found[0][found.end("flag") - found.start() :]
        if _NONE.get(flag) in self._kinds:
            return f"{_NONE[flag]}=None{rest}"
        negative = flag.startswith("no-") and flag[3:].replace("-", "_") in self._kinds
        name = flag[3 * negative :].replace("-", "_")
        name = name if name in self._kinds else self._flags.get(flag, name)
        if name not in self._kinds:
            return found[0]
        kind = self._kinds[name]
        if kind is not None and kind.annotation == "bool":
            return f"{name}={not negative}{rest}"
        choices = () if kind is None else kind.flag.get("choices", ())
        if value is None or not (value in choices or _VALUE.fullmatch(value)):
            return name + rest
        number = kind is not None and kind.annotation in ("int", "float")
        plain = value[1:-1] if value.startswith("'") else value
        return f"{name}={plain}" if number else f'{name}="{plain}"'


class ZooWords(ArgumentWords):
    """The same as keys of a zoo: 'keep-fp32 = "/head/*"' for "--keep-fp32 /head/*"."""

    def _argument(self, found: re.Match[str]) -> str:
        if found["flag"] in _NONE:  # a switch of a zoo, too
            return found[0].replace(f"--{found['flag']}", f"{found['flag']} = true")
        said = super()._argument(found)
        name, equals, value = said.partition("=")
        if said == found[0]:
            return said
        value = re.sub(r"^(True|False)\b", lambda word: word[0].lower(), value)
        return name.replace("_", "-") + (f" = {value}" if equals else "")


_FLAGS_KEPT: ContextVar[bool] = ContextVar("flags_kept", default=False)


@contextmanager
def flags_kept() -> Iterator[None]:
    """In the block, messages keep their flags: of a program with a command line of its own."""
    token = _FLAGS_KEPT.set(True)
    try:
        yield
    finally:
        _FLAGS_KEPT.reset(token)


@contextmanager
def naming_keys(file: object, kinds: Mapping[str, OptionKind]) -> Iterator[None]:
    """In the block, errors on these options name them as keys of the file, and not as flags. file: None: it has none."""
    words = ArgumentWords(kinds, {})
    try:
        yield
    except TrtsmithError as error:
        if file is not None:
            named = [one.reworded(words.said) for one in error.problems]
            error.problems = tuple(
                new if new.where == old.where else replace(new, where=f"{file}: {new.where}")
                for new, old in zip(named, error.problems, strict=True)
            )
            error.args = ("\n".join(map(str, error.problems)),)
        raise


def naming_arguments(
    kinds: Mapping[str, OptionKind | None], flags: Mapping[str, str], call: Callable[[], T]
) -> T:
    """Calls; errors and results then name arguments of the function, and not flags."""
    if _FLAGS_KEPT.get():
        return call()
    words = ArgumentWords(kinds, flags)
    try:
        result = call()
    except TrtsmithError as error:
        error.problems = tuple(one.reworded(words.said) for one in error.problems)
        error.args = ("\n".join(map(str, error.problems)),)
        raise
    reworded: Callable[[Callable[[str], str]], T] | None = getattr(result, "reworded", None)
    return result if reworded is None else reworded(words.said)
