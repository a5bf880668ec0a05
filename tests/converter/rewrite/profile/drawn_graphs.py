"""Draws random graphs of shape arithmetic, windows, slices and branches, with inputs of random sizes in a profile."""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges

OPSET = 18

RANGES = {
    "x": ((1, 3), (2, 2), (5, 9), (1, 8)),
    "y": ((1, 3), (0, 4)),
}
"""Of x [N, 2, H, W] and y [N, L]."""


@dataclass
class Drawing:
    """One graph on its way. vectors, scalars, flags: names of int64 vectors, with their lengths, scalars and booleans."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    maps: list[str] = field(default_factory=lambda: ["x"])
    vectors: list[tuple[str, int]] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def name(self) -> str:
        return f"v{len(self.nodes) + len(self.constants)}"

    def do(self, op_type: str, *inputs: str, **attributes: object) -> str:
        name = self.name()
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"n_{name}", **attributes))
        return name

    def const(self, value: object, dtype: type = np.int64) -> str:
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def choice(self, items: list) -> object:  # type: ignore[type-arg]
        return items[self.number(0, len(items) - 1)]

    def draw(self) -> None:
        steps = [self.window, self.cut, self.arithmetic, self.arithmetic, self.arithmetic, self.compare]
        steps += [
            self.reduce,
            self.floats,
            self.join,
            self.lookup,
            self.take,
            self.branch,
            self.logic,
            self.order,
        ]
        steps += [self.pick]
        self.take()
        for _ in range(self.number(4, 16)):
            self.choice(steps)()  # type: ignore[operator]

    def take(self) -> None:
        source = str(self.choice([*self.maps, "y"]))
        rank = 2 if source == "y" else 4
        shape = self.do("Shape", source)
        self.vectors.append((shape, rank))
        self.scalars.append(self.do("Gather", shape, self.const(self.number(-rank, rank - 1)), axis=0))
        if self.number(0, 3) == 0:
            self.scalars.append(self.do("Size", source))

    def window(self) -> None:
        x = str(self.choice(self.maps))
        kernel, stride = [self.number(1, 3) for _ in range(2)], [self.number(1, 3) for _ in range(2)]
        pads = [self.number(0, k - 1) for k in kernel * 2]
        if self.number(0, 1):
            extra = {"ceil_mode": self.number(0, 1)}
            self.maps.append(self.do("MaxPool", x, kernel_shape=kernel, strides=stride, pads=pads, **extra))
        else:
            auto = str(self.choice(["NOTSET", "SAME_UPPER", "VALID"]))
            how = {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
            weights = self.const(np.ones((2, 2, *kernel)), np.float32)
            self.maps.append(self.do("Conv", x, weights, strides=stride, **how))

    def cut(self) -> None:
        x, axis = str(self.choice(self.maps)), self.number(2, 3)
        ends = [
            self.const([self.number(-4, 6)]),
            self.const([int(self.choice([-3, -1, 1, 4, 2**31 - 1, 2**63 - 1]))]),
        ]  # type: ignore[call-overload]
        if self.number(0, 2) == 0 and self.scalars:
            ends[1] = self.do("Unsqueeze", str(self.choice(self.scalars)), self.const([0]))
        step = int(self.choice([1, 1, 2, 3, -1]))  # type: ignore[call-overload]
        self.maps.append(self.do("Slice", x, *ends, self.const([axis]), self.const([step])))

    def order(self) -> None:
        x = str(self.choice(self.maps))
        if self.number(0, 1):
            self.maps.append(
                self.do("Transpose", self.do("Transpose", x, perm=[0, 1, 3, 2]), perm=[0, 1, 3, 2])
            )
        else:
            self.maps.append(self.do("Concat", x, x, axis=self.number(2, 3)))
        shape = self.do("Shape", x)
        halves = self.do("Slice", shape, self.const([0]), self.const([2]))
        self.do("Reshape", x, self.do("Concat", halves, self.const([-1]), axis=0))

    def arithmetic(self) -> None:
        op = str(self.choice(["Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Clip", "Neg", "Abs"]))
        a = str(self.choice(self.scalars))
        if op in ("Neg", "Abs"):
            self.scalars.append(self.do(op, a))
            return
        b = str(self.choice([*self.scalars, self.const(self.number(-3, 7))]))
        if op == "Clip":
            bounds = [*self.scalars, self.const(self.number(-3, 7)), ""]
            self.scalars.append(self.do(op, a, str(self.choice(bounds)), str(self.choice(bounds))))
            return
        if op in ("Div", "Mod"):
            b = self.const(int(self.choice([1, 2, 3, 8, -2])))  # type: ignore[call-overload]
        self.scalars.append(self.do(op, a, b))

    def compare(self) -> None:
        op = str(self.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]))
        b = str(self.choice([*self.scalars, self.const(self.number(-2, 9))]))
        self.flags.append(self.do(op, str(self.choice(self.scalars)), b))

    def logic(self) -> None:
        if len(self.flags) < 2:
            return
        a, b = str(self.choice(self.flags)), str(self.choice(self.flags))
        self.flags.append(self.do(str(self.choice(["And", "Or", "Xor"])), a, b))
        self.flags.append(self.do("Not", a))
        self.scalars.append(self.do("Cast", b, to=TensorProto.INT64))

    def pick(self) -> None:
        if self.flags:
            a, b = str(self.choice(self.scalars)), str(self.choice(self.scalars))
            self.scalars.append(self.do("Where", str(self.choice(self.flags)), a, b))

    def reduce(self) -> None:
        vector, _ = self.choice(self.vectors)  # type: ignore[misc]
        op = str(self.choice(["ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"]))
        self.scalars.append(self.do(op, vector, keepdims=0))

    def floats(self) -> None:
        kind = int(
            self.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32])
        )  # type: ignore[call-overload]
        value = self.do("Cast", str(self.choice(self.scalars)), to=kind)
        if kind == TensorProto.FLOAT:
            by = self.const(float(self.choice([0.5, 2.0, 3.0, 0.1])), np.float32)  # type: ignore[arg-type]
            value = self.do(str(self.choice(["Mul", "Div"])), value, by)
        if kind != TensorProto.INT32:
            value = self.do(str(self.choice(["Floor", "Ceil", "Round"])), value)
        self.scalars.append(self.do("Cast", value, to=TensorProto.INT64))

    def join(self) -> None:
        one = self.do("Unsqueeze", str(self.choice(self.scalars)), self.const([0]))
        vector, length = self.choice(self.vectors)  # type: ignore[misc]
        self.vectors.append((self.do("Concat", vector, one, axis=0), length + 1))

    def lookup(self) -> None:
        vector, length = self.choice(self.vectors)  # type: ignore[misc]
        at = self.const([self.number(-length, length - 1) for _ in range(2)])
        self.vectors.append((self.do("Gather", vector, at, axis=0), 2))
        sizes = self.do("Mod", self.do("Abs", self.vectors[-1][0]), self.const([3, 4]))
        self.do("ConstantOfShape", sizes)
        self.do("Range", self.const(0), str(self.choice(self.scalars)), self.const(self.number(1, 3)))

    def branch(self) -> None:
        if not self.flags:
            return
        a, b = str(self.choice(self.scalars)), str(self.choice(self.scalars))
        graphs = []
        for part, (left, right) in (("then", (a, b)), ("else", (b, a))):
            result = f"{part}_{self.name()}"
            node = helper.make_node(str(self.choice(["Add", "Sub", "Mul"])), [left, right], [result])
            value = helper.make_tensor_value_info(result, TensorProto.INT64, [])
            graphs.append(helper.make_graph([node], part, [], [value]))
        self.scalars.append(
            self.do("If", str(self.choice(self.flags)), then_branch=graphs[0], else_branch=graphs[1])
        )


def drawn(seed: int) -> onnx.ModelProto:
    """A model whose outputs are all values that nothing reads."""
    drawing = Drawing(np.random.default_rng(seed))
    drawing.draw()
    read = {name for node in drawing.nodes for name in node.input}
    read |= {name for node in drawing.nodes for a in node.attribute for n in a.g.node for name in n.input}
    ends = [node.output[0] for node in drawing.nodes if node.output[0] not in read]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, "H", "W"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "L"]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ends]
    graph = helper.make_graph(drawing.nodes, "drawn", inputs, outputs, drawing.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def ranges(seed: int) -> ProfileRanges:
    """Those of RANGES, some of them narrowed to one size. The two N stay one."""
    rng = np.random.default_rng(seed)
    batch = RANGES["x"][0] if rng.integers(2) else (2, 2)
    narrowed = {
        name: tuple((high, high) if rng.integers(3) == 0 else (low, high) for low, high in bounds[1:])
        for name, bounds in RANGES.items()
    }
    return ProfileRanges({name: (batch, *bounds) for name, bounds in narrowed.items()})


def feeds(bounds: ProfileRanges, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of sizes in the ranges."""
    sizes = {
        name: [int(rng.integers(low, high + 1)) for low, high in pairs]
        for name, pairs in bounds.sizes.items()
    }
    sizes["y"][0] = sizes["x"][0]
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
