"""Checks identity and serialisation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
    with_batch,
)
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.contexts import at_once
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import PluginError, PluginRefusedError
from trtsmith.converter.plugin.host.plugin_values import PLAIN, EncodedField, State


def identity(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """It has the creator's name, version and namespace, all capabilities, and the outputs of its definition."""
    creator = session.creator.info
    with session.create(case) as plugin:
        info = plugin.info
        absent = [
            name
            for name, there in (
                ("core", info.has_core),
                ("build", info.has_build),
                ("runtime", info.has_runtime),
            )
            if not there
        ]
        if absent:
            raise CheckFailedError(
                f"created for building it lacks the capability {', '.join(absent)}", "all three"
            )
        for what in ("name", "version", "namespace"):
            mine, creators = getattr(info, what), getattr(creator, what)
            if mine != creators:
                raise CheckFailedError(f"the plugin's {what} is {mine!r}", f"the creator's, {creators!r}")
        if info.output_count < 1:
            raise CheckFailedError(f"getNbOutputs returned {info.output_count}", "1 or more")
        if case is not None and info.output_count != len(case.outputs):
            raise CheckFailedError(
                f"getNbOutputs returned {info.output_count}", f"{len(case.outputs)}, as it is defined"
            )
    return None


def namespace_kept(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """It keeps the namespace that it is given, and so does its clone (V2)."""
    with session.create(case) as plugin:
        if plugin.info.family is abi.Family.V3:
            raise NotTestableError("a V3 plugin's namespace cannot be set")
        plugin.set_namespace("some.namespace")
        with plugin.clone() as clone:
            for what, one in (("the plugin", plugin), ("its clone", clone)):
                if one.info.namespace != "some.namespace":
                    raise CheckFailedError(
                        f"after setPluginNamespace the namespace of {what} is {one.info.namespace!r}",
                        "'some.namespace', as it was set",
                    )
    return None


def answers(plugin: Plugin, case: ContractCase | None) -> dict[str, object]:
    """Collects a plugin's answers on which two equal plugins must agree."""
    info = plugin.info
    result: dict[str, object] = {"name": info.name, "version": info.version, "namespace": info.namespace}
    if info.has_build:
        result["number of outputs"] = info.output_count
        result["tactics"] = plugin.tactics()
        result["timing cache id"] = plugin.timing_cache_id()
        result["metadata"] = plugin.metadata()
        if case is not None:
            result["output types"] = plugin.output_types([desc.dtype for desc in case.inputs])
            result["output shapes"] = plugin.concrete_shapes(
                [desc.shape for desc in case.inputs], case.shape_values
            )
            result["workspace"] = plugin.workspace_size(case.inputs, case.outputs)
    if info.has_runtime:
        result["serialised state"] = plugin.serialize()
    return result


def require_same(plugin: Plugin, case: ContractCase | None, wanted: dict[str, object], who: str) -> None:
    """Raises CheckFailedError for the first answer that differs, or that the plugin fails to give."""
    try:
        found = answers(plugin, case)
    except PluginError as error:
        raise CheckFailedError(
            f"{who} no longer answers: {error.message}", "the same answers as before"
        ) from error
    for what, value in wanted.items():
        if what in found and found[what] != value:
            raise CheckFailedError(f"{who} has another {what}: {_short(found[what])}", _short(value))


def _short(value: object) -> str:
    words = str(value)
    return words if len(words) <= 300 else words[:300] + "..."


def round_trip(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Restored from its serialisation it answers as before."""
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        state = plugin.serialize()
        with session.creator.deserialize(state) as restored:
            if not restored.info.has_runtime:
                raise CheckFailedError(
                    "the restored plugin has no runtime capability", "core and runtime at least"
                )
            if case is not None and restored.info.has_build:
                restored.configure(case.inputs, case.outputs)
            require_same(restored, case, wanted, "the plugin restored from its serialisation")
    return f"{len(state)} {'bytes' if isinstance(state, bytes) else 'fields'}"


def serialisation_complete(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Every byte of a V2 serialisation is written (advice), and every V3 field has a name, data and a sane length."""
    with session.configured(case) as plugin:
        state = plugin.serialize(fill=0x00)
        if isinstance(state, bytes):
            other = plugin.serialize(fill=0xFF)
            assert isinstance(other, bytes)
            if len(other) != len(state):
                raise CheckFailedError(
                    f"it serialised to {len(state)} bytes and then to {len(other)}", "the same size"
                )
            unset = [i for i, (a, b) in enumerate(zip(state, other, strict=True)) if a != b]
            if unset:
                raise CheckFailedError(
                    f"serialize left {len(unset)} of {len(state)} bytes unset, the first at {unset[0]}",
                    "every byte written, so that equal plugins serialise to equal bytes",
                    advice=True,
                )
            return None
        names = [field.name for field in state]
        for field in state:
            if not field.name:
                raise CheckFailedError("a field to serialise has no name", "a name for every field")
            if field.length < 0 or (field.length > 0 and not field.data):
                raise CheckFailedError(
                    f"the field {field.name} has length {field.length} and no data", "data"
                )
            if field.type.startswith("type ") or field.type == "dims":
                raise CheckFailedError(
                    f"the field {field.name} is of {field.type}", "a type that TensorRT serialises"
                )
        if len(set(names)) != len(names):
            raise CheckFailedError(f"fields are serialised twice: {', '.join(names)}", "every field once")
    return None


def _other_values(field: EncodedField) -> Iterator[EncodedField]:
    """The field with other values, likelier ones first."""
    if field.type not in PLAIN or not field.length:
        return
    values = np.frombuffer(field.data, dtype=field.type)
    for changed in (
        values + 1,
        values * 2,
        values - 1,
        values * 0,
        values * 0 + 1,
        values + values.dtype.type(0.5),
    ):
        for data in (
            changed.astype(field.type).tobytes(),
            values.tobytes()[: -values.itemsize] + changed[-1:].tobytes(),
        ):
            if data != field.data and len(data) == len(field.data):
                yield replace(field, data=data)


def fields_kept(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """A plugin that differs in one field differs in its serialisation too: no field is lost."""
    if case is None:
        raise NotTestableError("no case is known: its right fields are not known")
    fields = session.fields(case)
    with session.creator.create(fields) as plugin:
        state = plugin.serialize()
    tested = 0
    for i, field in enumerate(fields):
        for other in _other_values(field):
            changed = (*fields[:i], other, *fields[i + 1 :])
            try:
                plugin = session.creator.create(changed)
            except PluginRefusedError:
                continue
            with plugin:
                if plugin.serialize() == state:
                    raise CheckFailedError(
                        f"the field {field.name} is not in the serialisation: another value leaves it the same",
                        "every field serialised",
                    )
            tested += 1
            break
    if not tested:
        raise NotTestableError("no field is known to allow another value")
    return f"{tested} of {len(fields)} fields could be changed"


def damaged_refused(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """A serialisation that is cut, padded, empty or short of a field is refused."""
    with session.configured(case) as plugin:
        state = plugin.serialize()
    damaged: list[tuple[str, State]] = []
    if isinstance(state, bytes):
        if not state:
            raise NotTestableError("it serialises to nothing")
        damaged = [
            ("cut by one byte", state[:-1]),
            ("cut in half", state[: len(state) // 2]),
            ("empty", b""),
            ("with one byte more", state + b"\0"),
        ]
    elif case is None:
        raise NotTestableError("no case is known: which fields it needs is not known")
    else:
        damaged = [(f"without {field.name}", tuple(f for f in state if f is not field)) for field in state]
        if not damaged:
            raise NotTestableError("it serialises no fields")
    for what, other in damaged:
        try:
            session.creator.deserialize(other).close()
        except PluginRefusedError:
            continue
        raise CheckFailedError(
            f"it was restored from a serialisation {what}", "null, and nothing read past the end"
        )
    return None


STATE_CHECKS = (
    ContractCheck("identity", identity, "plugin"),
    ContractCheck("namespace kept", namespace_kept, "plugin"),
    ContractCheck("serialisation complete", serialisation_complete, "plugin"),
    ContractCheck("serialisation round trip", round_trip, "plugin"),
    ContractCheck(
        "serialisation keeps fields",
        fields_kept,
        "plugin",
        "getFieldsToSerialize need not give the creator's fields: some are for building alone",
    ),
    ContractCheck(
        "damaged serialisation refused",
        damaged_refused,
        "plugin",
        "TensorRT gives back what the plugin serialised",
    ),
)


def any_order(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The creator takes fields in any order: they come in the order of the node's attributes."""
    fields = session.fields(case)
    if len(fields) < 2:
        raise session.too_few_fields(fields)
    with session.creator.create(fields) as plugin:
        wanted = answers(plugin, case)
    orders = dict.fromkeys((fields[::-1], (*fields[1:], fields[0])))
    for order in orders:
        names = ", ".join(field.name for field in order)
        try:
            plugin = session.creator.create(order)
        except PluginRefusedError as error:
            raise CheckFailedError(
                f"it refuses its fields in the order {names}", "fields found by their names", "look for names"
            ) from error
        with plugin:
            require_same(plugin, case, wanted, f"the plugin from the fields in the order {names}")
    return f"{len(orders)} other orders"


def fields_copied(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Names and values of fields are TensorRT's, and gone when createPlugin has returned."""
    fields = session.fields(case)
    if not fields:
        raise session.too_few_fields(fields)
    with session.creator.create(fields, overwrite=False) as plugin:
        wanted = answers(plugin, case)
    with session.creator.create(fields) as plugin:
        require_same(plugin, case, wanted, "the plugin whose fields were overwritten after createPlugin")
    return None


def stored_and_restored(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Fields come back out of an engine in another order, when their plugin is gone; from odd addresses, too (advice)."""
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        state = plugin.serialize()
    stored: State = state if isinstance(state, bytes) else state[::-1]
    for unaligned in (False, True):
        how = "bytes" if isinstance(stored, bytes) else "reversed fields"
        how += " at odd addresses" * unaligned
        try:
            restored = session.creator.deserialize(stored, unaligned=unaligned)
        except PluginRefusedError as error:
            raise CheckFailedError(
                f"it cannot be restored from what it serialised, from {how}",
                "a plugin, from any address and from fields in any order",
                "copy values with memcpy, and look for names",
                advice=unaligned,
            ) from error
        with restored:
            if case is not None and restored.info.has_build:
                restored.configure(case.inputs, case.outputs)
            require_same(restored, case, wanted, f"the plugin restored from {how}")
    return None


FIELD_CHECKS = (
    ContractCheck("fields in any order", any_order, "plugin"),
    ContractCheck("fields copied", fields_copied, "plugin"),
    ContractCheck("restored as an engine stores it", stored_and_restored, "plugin"),
)


def clones(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """A clone, and a clone of it, answer as the original does, also when that is destroyed."""
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        first = plugin.clone()
        require_same(first, case, wanted, "the clone")
    require_same(first, case, wanted, "the clone, after its original was destroyed,")
    second = first.clone()
    first.close()
    with second:
        require_same(second, case, wanted, "the clone of the clone, after both were destroyed,")
        if case is not None:
            second.configure(case.inputs, case.outputs)
            require_same(second, case, wanted, "the clone, configured again,")
    return None


def clone_independence(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Changes of a clone do not affect the original."""
    if case is None:
        raise NotTestableError("no case is known: it cannot be configured")
    # another batch leaves nearly every operator's shapes consistent
    inputs, outputs = (with_batch(descs, case, lambda n: n + 1) for descs in (case.inputs, case.outputs))
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        with plugin.clone() as clone:
            with suppress(PluginRefusedError):
                clone.configure(inputs, outputs)
            if plugin.info.family is not abi.Family.V3:
                clone.set_namespace("another.namespace")
            require_same(plugin, case, wanted, "the original, after its clone was configured,")
        require_same(plugin, case, wanted, "the original, after its clone was destroyed,")
    return None


def context_life(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The plugin is restored, initialised, attached, configured and terminated, as by an engine and its context."""
    with session.configured(case) as plugin:
        state = plugin.serialize()
    with session.creator.deserialize(state) as restored:
        if case is not None and restored.info.family is not abi.Family.V3:
            restored.configure(case.inputs, case.outputs)
        restored.initialize()
        with restored.attach() as attached:
            if case is not None:
                attached.on_shape_change(case.inputs, case.outputs)
        restored.terminate()
    return None


LIFE_CHECKS = (
    ContractCheck("clones", clones, "plugin"),
    ContractCheck("clone independence", clone_independence, "plugin"),
    ContractCheck("life in a context", context_life, "plugin"),
)


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
            at_once(_started_together(work), range(THREADS))
    return f"{THREADS} threads, {ROUNDS} times"


def _started_together(work: Callable[[int], None]) -> Callable[[int], None]:
    start = threading.Barrier(THREADS)

    def run(thread: int) -> None:
        start.wait()
        work(thread)

    return run


def _ask(make: Callable[[], Plugin], case: ContractCase | None, wanted: dict[str, object], who: str) -> None:
    for _ in range(ROUNDS):
        try:
            made = make()
        except PluginError as error:
            raise CheckFailedError(f"{who} failed: {error.message}", "what one thread alone gets") from error
        with made:
            require_same(made, case, wanted, who)


THREAD_CHECKS = (ContractCheck("several threads", several_threads, "plugin"),)
