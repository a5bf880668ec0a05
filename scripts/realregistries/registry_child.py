"""Queries the registry of one TensorRT about our plugin libraries, in its own process.

    python registry_child.py MODULE FOLDER QUESTIONS

MODULE: NVIDIA's bindings, in FOLDER or installed ("" then). QUESTIONS: the file that registry_questions made. Writes JSON
lines to stdout: {"doing": what comes next}, so that a crash has a place, {"fault": what is wrong}, and at the end
{"answers": ...}. stderr must be a file open for reading, too: our plugins say there why they refuse something, since they
cannot call a logger of TensorRT, whose class differs between versions. trtsmith and scripts/ must be on Python's path, for
the last thing that is done: the converter's own loader does the same.

What NVIDIA's bindings let one ask of a plugin of C++ is asked here. Of a V3 plugin these are the properties of its core and
build capability; registry_calls asks for the rest.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from realregistries.registry_calls import Calls, Expressions
from realregistries.registry_loading import load_as_a_build_does

KINDS = {"CORE": "PLUGIN_V3ONE_CORE", "BUILD": "PLUGIN_V3ONE_BUILD", "RUNTIME": "PLUGIN_V3ONE_RUNTIME"}
"""Interfaces that a V3 plugin has, each of version 1.0."""


class Asker:
    """One TensorRT's registry, and the findings. counts: by interface and operator."""

    def __init__(self, trt: Any, questions: dict[str, Any]) -> None:
        self.trt = trt
        self.questions = questions
        self.heard: list[str] = []
        self.counts: dict[str, dict[str, dict[str, int]]] = {}
        self.where = ""
        self._logger = make_logger(trt, self.heard)
        # Gives TensorRT the logger, with or without a GPU. What it says of a missing one is no matter here.
        self._runtime = trt.Runtime(self._logger)
        self.heard.clear()
        self.registry = trt.get_plugin_registry()
        self.native = self.creators()
        self.calls = Calls(trt)

    def creators(self) -> list[tuple[str, str]]:
        """Name and namespace of every creator in the registry."""
        return sorted((creator.name, creator.plugin_namespace) for creator in self.registry.all_creators)

    def take_heard(self) -> list[str]:
        """TensorRT's warnings and errors since the last call."""
        heard = list(self.heard)
        self.heard.clear()
        return heard

    def do(self, where: str) -> None:
        self.where = where
        print(json.dumps({"doing": where}), flush=True)

    def fault(self, what: str) -> None:
        print(json.dumps({"fault": f"{self.where}: {what}"}), flush=True)

    def same(self, count: dict[str, int], what: str, found: Any, expected: Any) -> None:
        count["comparisons"] += 1
        if found != expected:
            self.fault(f"{what} is {found!r}, expected {expected!r}")

    def library(self, interface: str) -> None:
        """Loads a library, tests every operator in it, and deregisters it."""
        with self.loaded(interface):
            for name, operator in self.questions[interface]["operators"].items():
                count = dict.fromkeys(("plugins", "cases", "refusals", "comparisons"), 0)
                self.counts.setdefault(interface, {})[name] = count
                self.do(f"{interface} {name}")
                self.operator(interface, name, operator, count)
                self.quiet(count)

    @contextmanager
    def loaded(self, interface: str) -> Iterator[None]:
        """Loads a library into the registry; nothing of it may remain after the block."""
        self.do(f"loading {interface}")
        questions = self.questions[interface]
        handle = self.registry.load_library(questions["path"])
        ours = [(name, operator["namespace"]) for name, operator in questions["operators"].items()]
        count = {"comparisons": 0}
        self.same(count, "the list of creators", self.creators(), sorted([*self.native, *ours]))
        if handle is None:
            raise SystemExit(f"{interface}: load_library gave nothing; TensorRT says: {self.heard}")
        yield
        self.do(f"deregistering {interface}")
        gc.collect()  # no plugin and no creator may outlive its library
        self.registry.deregister_library(handle)
        self.same(count, "the list of creators", self.creators(), self.native)

    def operator(self, interface: str, name: str, operator: dict[str, Any], count: dict[str, int]) -> None:
        creator = self.registry.get_creator(name, operator["version"], operator["namespace"])
        if creator is None:
            self.fault("there is no such creator")
            return
        of_v3 = type(creator).__name__ == "IPluginCreatorV3One"
        self.same(count, "whether the creator is one of V3", of_v3, interface == "V3")
        listed = [[field.name, field.type.name.lower(), field.size] for field in creator.field_names]
        self.same(count, "the list of fields", listed, operator["fields"])
        for given in (
            (name, "no such version", operator["namespace"]),
            (name, operator["version"], "elsewhere"),
        ):
            self.same(count, f"the creator of {given}", self.registry.get_creator(*given), None)
        self.take_heard()  # of creators that are not there
        for case in operator["cases"]:
            self.do(f"{interface} {name} [{case['name']}]")
            count["cases"] += 1
            (self.case_v3 if of_v3 else self.case_v2)(creator, case, count)
        for refusal in operator["refusals"]:
            for phase in self.phases(of_v3):
                self.do(f"{interface} {name}, fields with a fault: {refusal['what']}, {phase}")
                count["refusals"] += 1
                made, said = self.create(creator, refusal["fields"], *phase)
                self.same(count, "what the creator gave", made, None)
                self.same(count, "what it said", said, refusal["said"])

    def phases(self, of_v3: bool) -> tuple[tuple[Any, ...], ...]:
        """Further arguments for the creation of plugins."""
        return ((self.trt.TensorRTPhase.BUILD,), (self.trt.TensorRTPhase.RUNTIME,)) if of_v3 else ((),)

    def create(self, creator: Any, fields: list[Any], *phase: Any) -> tuple[Any, str]:
        """(the plugin or None, the text on stderr meanwhile)."""
        arrays = [np.asarray(values, dtype=kind) for _, kind, values in fields]
        made = [
            self.trt.PluginField(name, array, getattr(self.trt.PluginFieldType, kind.upper()))
            for (name, kind, _), array in zip(fields, arrays, strict=True)
        ]
        with listening() as said:
            plugin = creator.create_plugin("layer", self.trt.PluginFieldCollection(made), *phase)
        return plugin, said[0]

    def case_v3(self, creator: Any, case: dict[str, Any], count: dict[str, int]) -> None:
        """Creates the plugin from its fields in both phases, and in the phase RUNTIME from its serialised fields."""
        ways = [(case["fields"], phase) for (phase,) in self.phases(True)]
        ways += [(state, self.trt.TensorRTPhase.RUNTIME) for state in case["states"]]
        for fields, phase in ways:
            plugin, said = self.create(creator, fields, phase)
            self.same(count, "what was said at its creation", said, "")
            if plugin is None:
                self.fault(f"no plugin from {fields} in the phase {phase}")
                continue
            count["plugins"] += 1
            found: dict[str, Any] = {}
            for name, kind in KINDS.items():
                part = plugin.get_capability_interface(getattr(self.trt.PluginCapabilityType, name))
                info = part.interface_info
                self.same(count, f"the interface {name}", (info.kind, info.major, info.minor), (kind, 1, 0))
                self.same(count, f"the language of {name}", part.api_language, self.trt.APILanguage.CPP)
                found |= {what: getattr(part, what) for what in case["says"] if hasattr(part, what)}
            for what, expected in case["says"].items():
                self.same(count, what, found.get(what), expected)
            answers = self.calls.answers(plugin, case)
            for what, expected in case["answers"].items():
                self.same(count, what, answers[what], expected)

    def case_v2(self, creator: Any, case: dict[str, Any], count: dict[str, int]) -> None:
        """Creates, clones, serialises and deserialises the plugin, before its inputs are known and after."""
        plugin, said = self.create(creator, case["fields"])
        self.same(count, "what was said at its creation", said, "")
        if plugin is None:
            self.fault(f"no plugin from {case['fields']}")
            return
        states = [bytes.fromhex(state) for state in case["states"]]
        plugins = [("the plugin", plugin, states[0]), ("its clone", plugin.clone(), states[0])]
        plugins += [
            (f"the plugin from {len(state)} bytes", creator.deserialize_plugin("layer", state), state)
            for state in states
        ]
        for who, one, state in plugins:
            if one is None:
                self.fault(f"there is no {who.removeprefix('the ')}")
                continue
            count["plugins"] += 1
            self.same(count, f"the serialisation of {who}", bytes(one.serialize()), state)
            self.same(count, f"the size of {who}", one.serialization_size, len(state))
            self.same(count, f"initialize() of {who}", one.initialize(), 0)
            for what, expected in case["says"].items():
                self.same(count, f"{what} of {who}", getattr(one, what), expected)
            one.plugin_namespace = "elsewhere"
            other = one.clone()
            self.same(count, f"the namespace of a clone of {who}", other.plugin_namespace, "elsewhere")
            one.terminate()  # no destroy(): Python deletes what it holds
        for damaged in (states[0][:-1], states[0] + b"\0", b""):
            count["refusals"] += 1
            with listening() as said_of:
                found = creator.deserialize_plugin("layer", damaged)
            self.same(count, f"the plugin from {len(damaged)} bytes", found, None)
            words = (
                f"::deserializePlugin: serialised plugin of {len(damaged)} bytes; expected {len(states[0])}\n"
            )
            self.same(count, "what it said", said_of[0], f"[trtsmith] {case['says']['plugin_type']}{words}")

    def quiet(self, count: dict[str, int]) -> None:
        """Checks that TensorRT reported no error for any query."""
        self.same(count, "what TensorRT's logger heard", self.take_heard(), [])

    def one_of_two(self, first: str, second: str) -> str:
        """Checks that the second of two libraries with equal creator names is refused as a whole until the first is gone.

        Gives what TensorRT's logger hears of it, the first message.
        """
        with self.loaded(first):
            before = self.creators()
            self.do(f"loading {second} beside {first}")
            refused = self.registry.load_library(self.questions[second]["path"])
            count = {"comparisons": 0}
            self.same(count, "the second library's handle", refused, None)
            self.same(count, "the list of creators", self.creators(), before)
        heard = next(iter(self.take_heard()), "")
        with self.loaded(second):
            pass
        return heard


def make_logger(trt: Any, heard: list[str]) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        """Keeps warnings and errors."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, text: str) -> None:
            if severity in (self.INTERNAL_ERROR, self.ERROR, self.WARNING):
                heard.append(text)

    return Logger()


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collects the text on stderr inside the block, as one string at the end."""
    said: list[str] = []
    start = os.fstat(2).st_size
    yield said
    said.append(os.pread(2, os.fstat(2).st_size - start, start).decode(errors="replace"))


def main() -> NoReturn:
    faulthandler.enable()
    module, folder, file = sys.argv[1:]
    if folder:
        sys.path.insert(0, folder)
    trt = importlib.import_module(module)
    asker = Asker(trt, json.loads(Path(file).read_text(encoding="utf-8")))
    for interface in asker.questions:
        asker.library(interface)
    second = {f"{b} after {a}": asker.one_of_two(a, b) for a, b in permutations(asker.questions, 2)}
    made, faults = load_as_a_build_does(
        trt,
        "tensorrt_rtx" if module == "tensorrt_rtx" else "tensorrt",
        asker.questions,
        asker.take_heard,
        asker.do,
    )
    for fault in faults:
        asker.fault(fault)
    answers = {
        "version": trt.__version__,
        "asked": asker.counts,
        "second_library": second,
        "by_the_converter": made,
        "expression_places": Expressions(trt).places,
    }
    print(json.dumps({"answers": answers}), flush=True)
    # The runtime that a TensorRT without a GPU has given crashes when it is destroyed.
    os._exit(0)


if __name__ == "__main__":
    main()
