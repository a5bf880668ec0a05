"""Defines a plugin check, which runs in a child process, and the checks' shared code.

Each raises CheckFailedError or NotTestableError, or returns a note.

Checks about creators and fields are here; the other plugin_checks_*.py hold the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Creator, Plugin
from trtsmith.converter.plugin.host.host_library import PluginError, PluginRefusedError
from trtsmith.converter.plugin.host.plugin_values import PLAIN, EncodedField, TensorDesc, field_values

LONGEST_NAME = 1023  # TensorRT takes names up to 1024 bytes with their NUL


class CheckFailedError(Exception):
    """A check failed. advice: TensorRT does not demand this, though the rest of the check is its contract."""

    def __init__(
        self, what: str, expected: str, fix: str = "mend the plugin", *, advice: bool = False
    ) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.fix = fix
        self.advice = advice


class NotTestableError(Exception):
    """A check cannot be made; the text says why."""


@dataclass
class CreatorUnderTest:
    """The creator under test. bare: fields with which it can be created when no case is known, once looked for."""

    creator: Creator
    bare: tuple[EncodedField, ...] | None = None

    def fields(self, case: ContractCase | None) -> tuple[EncodedField, ...]:
        if case is not None:
            return field_values(case.fields, self.creator.fields)
        if self.bare is None:
            self.bare = find_fields(self.creator)
        return self.bare

    def too_few_fields(self, given: Sequence[EncodedField]) -> NotTestableError:
        """Why a check of fields cannot be made of those that are given."""
        names = [field.name for field in self.creator.fields if field.name]
        if len(names) > len(given):
            number = len(given) or "none"
            return NotTestableError(
                f"it is created with values for {number} of its fields {', '.join(names)}"
            )
        return NotTestableError("it has fewer than two fields" if given else "it has no fields")

    def create(self, case: ContractCase | None) -> Plugin:
        return self.creator.create(self.fields(case))

    @contextmanager
    def configured(self, case: ContractCase | None) -> Iterator[Plugin]:
        """A plugin as it is when TensorRT serialises it: configured, where inputs are known."""
        with self.create(case) as plugin:
            if case is not None:
                plugin.configure(case.inputs, case.outputs)
            yield plugin


CheckFunction = Callable[[CreatorUnderTest, "ContractCase | None"], "str | None"]


@dataclass(frozen=True)
class ContractCheck:
    """One check. scope: "creator" (once), "plugin" (for each case, or with fields that were found) or "case" (needs a case).

    advice: the reason why TensorRT's headers and documentation do not demand it; "" for what is its contract.
    """

    name: str
    run: CheckFunction
    scope: str
    advice: str = ""


def find_fields(creator: Creator) -> tuple[EncodedField, ...]:
    """Finds fields with which an unknown plugin can be created: none, its listed defaults, ones or zeros.

    Raises NotTestableError where it takes none of them.
    """
    specs = [spec for spec in creator.fields if spec.name]
    tries: list[tuple[EncodedField, ...]] = [()]
    if specs and all(spec.data is not None for spec in specs):
        tries.insert(0, tuple(EncodedField(s.name or "", s.type, s.data or b"", s.length) for s in specs))
    for number in (1, 0):
        tries.append(
            tuple(_filled(spec.name or "", spec.type, max(spec.length, 1), number) for spec in specs)
        )
    for fields in tries:
        with suppress(PluginRefusedError):
            creator.create(fields).close()
            return fields
    raise NotTestableError(
        "no case is known, and it cannot be created with no fields, its own defaults, ones or zeros"
    )


def _filled(name: str, type_: str, length: int, number: int) -> EncodedField:
    if type_ in PLAIN:
        return EncodedField(name, type_, np.full(length, number, dtype=type_).tobytes(), length)
    size = (abi.FIELD_BITS.get(type_, 8) * length + 7) // 8
    return EncodedField(name, type_, bytes(size), length)


def with_batch(
    descs: Sequence[TensorDesc], case: ContractCase, change: Callable[[int], int]
) -> tuple[TensorDesc, ...]:
    """Returns the tensors with another batch, in all whose first dimension is that of the case's first input."""
    old = case.inputs[0].shape[:1] if case.inputs else ()
    return tuple(
        replace(desc, shape=(change(old[0]), *desc.shape[1:])) if old and desc.shape[:1] == old else desc
        for desc in descs
    )


def creator_names(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator is of a kind that TensorRT knows, with a name, a version and a namespace that it takes."""
    info = session.creator.info
    if info.family == 0:
        raise CheckFailedError(
            f"the creator is of kind {info.kind!r}", "PLUGIN CREATOR_V3ONE or PLUGIN CREATOR_V1"
        )
    for what, value in (("name", info.name), ("version", info.version)):
        if not value:
            raise CheckFailedError(f"the creator's {what} is {value!r}", "a text that is not empty")
        if len(value.encode()) > LONGEST_NAME:
            raise CheckFailedError(
                f"the creator's {what} is {len(value)} bytes long", f"at most {LONGEST_NAME}"
            )
    if info.namespace is None:
        raise CheckFailedError("the creator's namespace is null", "a text, which may be empty")
    return None


def field_list(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Every field is listed once, with a name, a type and a length."""
    if not session.creator.info.has_fields:
        raise CheckFailedError("getFieldNames returned null", "a collection, which may be empty")
    names = []
    for i, spec in enumerate(session.creator.fields):
        if not spec.name:
            raise CheckFailedError(f"field {i} has the name {spec.name!r}", "a name that is not empty")
        if spec.type.startswith("type ") or spec.type == "unknown":
            raise CheckFailedError(
                f"field {spec.name} is of {spec.type}", "a type of PluginFieldType other than kUNKNOWN"
            )
        if spec.length < 0:
            raise CheckFailedError(f"field {spec.name} has length {spec.length}", "a length of 0 or more")
        names.append(spec.name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CheckFailedError(f"fields listed more than once: {', '.join(twice)}", "every field once")
    return f"{len(names)} fields"


def creation(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """It can be created, with the fields of a case or with some that are found."""
    session.create(case).close()
    return None if case is not None else "created without a known case"


def field_names_match(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator lists the fields of the definition: the parser passes no others. One more is advice."""
    if case is None:
        raise NotTestableError("no case is known: its fields are not known")
    listed = {spec.name for spec in session.creator.fields}
    if listed != set(case.fields):
        raise CheckFailedError(
            f"the creator lists the fields {_names(listed)}",
            f"the definition's: {_names(set(case.fields))} (the parser passes only the fields that are listed)",
            advice=set(case.fields) <= listed,
        )
    return None


def _names(names: set[str | None] | set[str]) -> str:
    return ", ".join(sorted(map(str, names))) or "none"


def _refuse(session: CreatorUnderTest, fields: tuple[EncodedField, ...], what: str) -> None:
    try:
        session.creator.create(fields).close()
    except PluginRefusedError:
        return
    raise CheckFailedError(f"it was created {what}", "createPlugin to return null")


def _known(
    session: CreatorUnderTest, case: ContractCase | None
) -> tuple[ContractCase, tuple[EncodedField, ...]]:
    if case is None:
        raise NotTestableError("no case is known: its right fields are not known")
    fields = session.fields(case)
    if not fields:
        raise session.too_few_fields(fields)
    return case, fields


def missing_fields_refused(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator refuses a collection without one of the fields."""
    case, fields = _known(session, case)
    required = [field for field in fields if field.name not in case.optional_fields]
    if not required:
        raise NotTestableError("all of its fields are optional")
    for field in required:
        _refuse(session, tuple(f for f in fields if f is not field), f"without its field {field.name}")
    _refuse(session, (), "without any field")
    return None


def unknown_field_refused(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator refuses an unknown field."""
    if case is None:
        raise NotTestableError("no case is known: its right fields are not known")
    extra = EncodedField("no_such_field", "int32", bytes(4), 1)
    _refuse(session, (*session.fields(case), extra), "with a field that it does not have, no_such_field")
    return None


def wrong_types_refused(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator refuses a field of another type."""
    _, fields = _known(session, case)
    for i, field in enumerate(fields):
        # As many bytes as any reader of the right length takes, so that a lenient plugin reads no foreign memory.
        other = "float32" if field.type != "float32" else "int32"
        data = field.data + bytes(8 * max(field.length, 1))
        wrong = replace(field, type=other, data=data)
        _refuse(session, (*fields[:i], wrong, *fields[i + 1 :]), f"with its field {field.name} as {other}")
    return None


def wrong_lengths_refused(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator refuses a field of another length."""
    case, fields = _known(session, case)
    fixed = [field for field in fields if field.name not in case.variable_fields and field.type != "char"]
    if not fixed:
        raise NotTestableError("none of its fields has a fixed length")
    for field in fixed:
        for length in (0, field.length + 1):
            # The data stays long enough for a reader that trusts the right length.
            wrong = replace(field, length=length, data=field.data + bytes(8))
            changed = tuple(wrong if item is field else item for item in fields)
            _refuse(session, changed, f"with {length} elements in its field {field.name}")
    return None


_REFUSING = "createPlugin returns null for an error, and the creator decides what is one"

CREATOR_CHECKS = (
    ContractCheck("creator names", creator_names, "creator"),
    ContractCheck("field list", field_list, "creator"),
    ContractCheck("creation", creation, "plugin"),
    ContractCheck("fields of the definition", field_names_match, "plugin"),
    ContractCheck("missing fields refused", missing_fields_refused, "plugin", _REFUSING),
    ContractCheck("unknown field refused", unknown_field_refused, "plugin", _REFUSING),
    ContractCheck("wrong field types refused", wrong_types_refused, "plugin", _REFUSING),
    ContractCheck("wrong field lengths refused", wrong_lengths_refused, "plugin", _REFUSING),
)


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
    """setLoggerFinder may come after getCreators, and again."""
    _ask_again(session, abi.Finder.OURS, "after setLoggerFinder was called again,")
    return None


def no_logger_finder(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """setLoggerFinder may be called with null, for an application without a logger."""
    _ask_again(session, abi.Finder.NULL, "after setLoggerFinder was called with null,")
    _ask_again(session, abi.Finder.OURS, "after setLoggerFinder was called with null and then with a finder,")
    return None


LIBRARY_CHECKS = (
    ContractCheck("creators asked again", creators_kept, "creator"),
    ContractCheck("logger finder set again", logger_finder, "creator"),
    ContractCheck(
        "null as logger finder", no_logger_finder, "creator", "TensorRT passes a finder of its own"
    ),
)
