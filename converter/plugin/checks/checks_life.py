"""Checks clones, and a plugin's life in an engine and its execution contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtsmith.converter.plugin.checks.checks import ContractCheck, CreatorUnderTest, NotTestableError
from trtsmith.converter.plugin.checks.checks_state import answers, require_same
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import PluginError
from trtsmith.converter.plugin.host.plugin_values import TensorDesc


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


def _one_more_in_batch(descs: Sequence[TensorDesc], case: ContractCase) -> tuple[TensorDesc, ...]:
    """The same tensors with another batch, which leaves nearly every operator's shapes consistent."""
    batch = case.inputs[0].shape[:1] if case.inputs else ()
    return tuple(
        replace(desc, shape=(batch[0] + 1, *desc.shape[1:])) if batch and desc.shape[:1] == batch else desc
        for desc in descs
    )


def clone_independence(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Changes of a clone do not affect the original."""
    if case is None:
        raise NotTestableError("no case is known: it cannot be configured")
    inputs, outputs = _one_more_in_batch(case.inputs, case), _one_more_in_batch(case.outputs, case)
    with session.configured(case) as plugin:
        wanted = answers(plugin, case)
        with plugin.clone() as clone:
            try:
                clone.configure(inputs, outputs)
            except PluginError as error:
                if error.status is not abi.Status.REFUSED:
                    raise
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
