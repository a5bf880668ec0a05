"""Checks that plugins accept fields as TensorRT passes them: in any order, at any address, for one call only."""

from __future__ import annotations

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
)
from trtsmith.converter.plugin.checks.checks_state import answers, require_same
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import PluginError
from trtsmith.converter.plugin.host.plugin_values import State


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
        except PluginError as error:
            if error.status is not abi.Status.REFUSED:
                raise
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
    """Fields come back out of an engine in another order, from any address, when their plugin is long gone."""
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        state = plugin.serialize()
    stored: State = state if isinstance(state, bytes) else state[::-1]
    try:
        restored = session.creator.deserialize(stored, unaligned=True)
    except PluginError as error:
        if error.status is not abi.Status.REFUSED:
            raise
        how = "bytes at an odd address" if isinstance(stored, bytes) else "fields reversed, at odd addresses"
        raise CheckFailedError(
            f"it cannot be restored from what it serialised, with its {how}",
            "a plugin, from any address and from fields in any order",
            "copy values with memcpy, and look for names",
        ) from error
    with restored:
        if case is not None and restored.info.has_build:
            restored.configure(case.inputs, case.outputs)
        require_same(restored, case, wanted, "the plugin restored from reversed fields at odd addresses")
    return None


FIELD_CHECKS = (
    ContractCheck("fields in any order", any_order, "plugin"),
    ContractCheck("fields copied", fields_copied, "plugin"),
    ContractCheck("restored as an engine stores it", stored_and_restored, "plugin"),
)
