"""Calls methods of a V3 plugin that NVIDIA's bindings leave out, with objects that the same version of TensorRT makes.

The bindings have no way to ask a plugin of C++ for types, shapes, formats, workspace, fields to serialise or a clone: there
these are stubs, for plugins written in Python. So they are called through the plugin's virtual table, at the places that it
has in the headers our library is compiled with. What they are given is NVIDIA's: tensor descriptions and lists of dimensions
as the bindings' constructors and properties lay them out, values of the bindings' enumerations, and an IExprBuilder that
the bindings made. Behind that builder is a table of ours; which of its places stands for which method, NVIDIA's compiled
code says: it is made to call each of them once. If any of this differed from the headers, answers would be wrong, or the
process would crash.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Of IVersionedInterface: getAPILanguage, getInterfaceInfo and two destructors, of which the second deletes.
DELETE = 3
CAPABILITY, CLONE = 4, 5  # of IPluginV3
CONFIGURE, TYPES, SHAPES, FORMATS, WORKSPACE = 4, 5, 6, 7, 9  # of IPluginV3OneBuild
SHAPE_CHANGE, FIELDS = 5, 8  # of IPluginV3OneRuntime

DESCRIPTION, DYNAMIC_DESCRIPTION, EXPRESSIONS = 88, 304, 72
"""Bytes of PluginTensorDesc, DynamicPluginTensorDesc and DimsExprs in the same headers."""

PLACES = 12
"""More than any of the tables behind a builder has."""

DATA_TYPES = {
    "float32": "FLOAT", "float16": "HALF", "bfloat16": "BF16", "int8": "INT8", "int32": "INT32", "int64": "INT64",
    "bool": "BOOL",
}  # fmt: skip

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "SUM": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "PROD": lambda a, b: a * b,
    "MIN": min,
    "MAX": max,
    "FLOOR_DIV": lambda a, b: a // b,
}

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class PluginField(ctypes.Structure):
    """nvinfer1::PluginField."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("length", ctypes.c_int32),
    )


class Fields(ctypes.Structure):
    """nvinfer1::PluginFieldCollection."""

    _fields_ = (("count", ctypes.c_int32), ("entries", ctypes.POINTER(PluginField)))


def address(wrapped: Any) -> int:
    """The C++ object's address in a binding's object: pybind11 stores the pointer after the Python object's header."""
    return int(ctypes.c_void_p.from_address(id(wrapped) + object.__basicsize__).value or 0)


def call(this: int, place: int, result: Any, *arguments: Any) -> Any:
    """Calls the virtual function at a position of an object's table."""
    table = int(ctypes.c_void_p.from_address(this).value or 0)
    function = int(ctypes.c_void_p.from_address(table + place * ctypes.sizeof(ctypes.c_void_p)).value or 0)
    types = [type(argument) for argument in arguments]
    return ctypes.CFUNCTYPE(result, ctypes.c_void_p, *types)(function)(this, *arguments)


class Expressions:
    """An NVIDIA expression builder that computes numbers. values: of each expression, by its address."""

    def __init__(self, trt: Any) -> None:
        self.values: dict[int, int] = {}
        self._keep: list[Any] = []
        self._names = {int(member): name for name, member in trt.DimensionOperation.__members__.items()}
        self._type = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL("libstdc++.so.6"), "_ZTISt9exception"))
        self._called = -1
        self._methods: dict[int, Callable[[int, int, int], int]] = {}
        self.builder = trt.IExprBuilder()
        # The object holds its own table and a pointer to what computes, which nobody has set.
        behind = self._object([self._entry(place) for place in range(PLACES)])
        ctypes.c_void_p.from_address(address(self.builder) + ctypes.sizeof(ctypes.c_void_p)).value = behind
        one = self.builder.constant(1)
        self._methods[self._called] = lambda number, _first, _second: self._expression(number)
        self.builder.operation(trt.DimensionOperation.SUM, one, one)
        self._methods[self._called] = self._operation
        self.builder.declare_size_tensor(0, one, one)
        self._methods[self._called] = lambda _output, _typical, most: self._expression(self.values[most])
        self.places = tuple(self._methods)

    def shape(self, trt: Any, sizes: Sequence[int]) -> bytes:
        """The bytes of an NVIDIA DimsExprs of constants."""
        dimensions = trt.DimsExprs(len(sizes))
        for axis, size in enumerate(sizes):
            dimensions[axis] = self.builder.constant(size)
        return ctypes.string_at(address(dimensions), EXPRESSIONS)

    def _entry(self, place: int) -> Any:
        def called(_this: int, number: int, first: int, second: int) -> int:
            self._called = place
            method = self._methods.get(place)
            return method(number, first, second) if method is not None else self._expression(number)

        return _ENTRY(called)

    def _operation(self, number: int, first: int, second: int) -> int:
        # An int32: what the upper half of the register holds is not said.
        return self._expression(
            OPERATIONS[self._names[number & 0xFFFFFFFF]](self.values[first], self.values[second])
        )

    def _expression(self, value: int) -> int:
        made = self._object([])
        self.values[made] = value
        return made

    def _object(self, entries: list[Any]) -> int:
        """An object with a virtual table, preceded by the offset and the type that pybind11 reads; it does not know this
        type.
        """
        places = [ctypes.cast(entry, ctypes.c_void_p).value for entry in entries]
        table = (ctypes.c_void_p * (2 + len(places)))(0, self._type, *places)
        made = (ctypes.c_void_p * 2)(ctypes.addressof(table) + 2 * ctypes.sizeof(ctypes.c_void_p), 0)
        self._keep += [entries, table, made]
        return ctypes.addressof(made)


class Calls:
    """Queries the V3 plugins that a registry of this TensorRT has made."""

    def __init__(self, trt: Any) -> None:
        self.trt = trt

    def answers(self, plugin: Any, case: dict[str, Any]) -> dict[str, Any]:
        """The answers by the names in registry_questions' "answers"; failed calls give their code."""
        kinds = self.trt.PluginCapabilityType
        build = address(plugin.get_capability_interface(kinds.BUILD))
        runtime = address(plugin.get_capability_interface(kinds.RUNTIME))
        tensors = [*case["inputs"], *case["outputs"]]
        counts = [ctypes.c_int32(len(case["inputs"])), ctypes.c_int32(len(case["outputs"]))]
        split = len(case["inputs"])
        dynamic = [self._dynamic(*tensor) for tensor in tensors]
        build_io = (_array(dynamic[:split]), counts[0], _array(dynamic[split:]), counts[1])
        static = [self._description(*tensor) for tensor in tensors]
        run_io = (_array(static[:split]), counts[0], _array(static[split:]), counts[1])
        clone = int(call(address(plugin), CLONE, ctypes.c_void_p))
        found = {
            "types": self._types(build, case, counts),
            "shapes": self._shapes(build, case, counts),
            "formats": self._formats(build, tensors, dynamic, counts),
            "configured": call(build, CONFIGURE, ctypes.c_int32, *build_io),
            "workspace": call(build, WORKSPACE, ctypes.c_size_t, *build_io),
            "shape_change": call(runtime, SHAPE_CHANGE, ctypes.c_int32, *run_io),
            "fields": self._fields(runtime),
            "fields_of_clone": self._fields(
                call(clone, CAPABILITY, ctypes.c_void_p, ctypes.c_int32(int(kinds.RUNTIME)))
            ),
        }
        call(clone, DELETE, None)
        return found

    def _types(self, build: int, case: dict[str, Any], counts: list[Any]) -> list[str]:
        given = (ctypes.c_int32 * counts[0].value)(*(int(self._type(dtype)) for dtype, _ in case["inputs"]))
        found = (ctypes.c_int32 * counts[1].value)()
        call(build, TYPES, ctypes.c_int32, _pointer(found), counts[1], _pointer(given), counts[0])
        names = {name: dtype for dtype, name in DATA_TYPES.items()}
        return [names[self.trt.DataType(number).name] for number in found]

    def _shapes(self, build: int, case: dict[str, Any], counts: list[Any]) -> list[list[int]]:
        expressions = Expressions(self.trt)
        given = _array([expressions.shape(self.trt, shape) for _, shape in case["inputs"]])
        found = (ctypes.c_int64 * (EXPRESSIONS // 8 * counts[1].value))()
        none, builder = ctypes.c_void_p(), ctypes.c_void_p(address(expressions.builder))
        call(
            build,
            SHAPES,
            ctypes.c_int32,
            given,
            counts[0],
            none,
            ctypes.c_int32(0),
            _pointer(found),
            counts[1],
            builder,
        )
        starts = range(0, len(found), EXPRESSIONS // 8)
        return [[expressions.values[place] for place in found[at + 1 : at + 1 + found[at]]] for at in starts]

    def _formats(self, build: int, tensors: list[Any], dynamic: list[bytes], counts: list[Any]) -> list[bool]:
        """Whether each position takes its type, and whether it takes int8."""
        found = []
        for position, (_, shape) in enumerate(tensors):
            for mine in (dynamic[position], self._dynamic("int8", shape)):
                asked = _array([*dynamic[:position], mine, *dynamic[position + 1 :]])
                found.append(call(build, FORMATS, ctypes.c_bool, ctypes.c_int32(position), asked, *counts))
        return found

    def _fields(self, runtime: int) -> list[Any]:
        collection = Fields.from_address(call(runtime, FIELDS, ctypes.c_void_p))
        entries = []
        for field in collection.entries[: collection.count]:
            kind = self.trt.PluginFieldType(field.type).name.lower()
            data = ctypes.string_at(field.data, np.dtype(kind).itemsize * field.length)
            entries.append([field.name.decode(), kind, np.frombuffer(data, kind).tolist()])
        return entries

    def _type(self, dtype: str) -> Any:
        return getattr(self.trt.DataType, DATA_TYPES[dtype])

    def _wrapped(self, dtype: str, shape: Sequence[int]) -> Any:
        made = self.trt.PluginTensorDesc()
        made.dims, made.type, made.scale = self.trt.Dims(shape), self._type(dtype), 1.0
        return made

    def _description(self, dtype: str, shape: Sequence[int]) -> bytes:
        made = self._wrapped(dtype, shape)
        return ctypes.string_at(address(made), DESCRIPTION)

    def _dynamic(self, dtype: str, shape: Sequence[int]) -> bytes:
        made = self.trt.DynamicPluginTensorDesc()
        made.desc = self._wrapped(dtype, shape)
        made.min = made.opt = made.max = self.trt.Dims(shape)
        return ctypes.string_at(address(made), DYNAMIC_DESCRIPTION)


def _array(parts: Sequence[bytes]) -> Any:
    """A pointer to consecutive structures."""
    return _pointer(ctypes.create_string_buffer(b"".join(parts) or b"\0"))


def _pointer(array: Any) -> Any:
    # Keeps the array alive, which an address alone would not.
    return ctypes.cast(array, ctypes.c_void_p)
