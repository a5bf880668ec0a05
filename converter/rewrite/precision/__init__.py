"""The precision pass: gives the graph the types in which strongly typed TensorRT will compute.

    from trtsmith.converter.rewrite.precision.reduce import reduce_precision
    reduced = reduce_precision(model, FORMATS["fp16"])     # reduced.model, reduced.report

It runs after all other passes and rules. `judge` says of every node by its own nature what it is to be computed in, and
why; `regions` gives those that may be in either type the type of their neighbours; `writer` puts Casts at the borders.

| file | its question |
|---|---|
| `policy.py` | which operators stay in float32, and which gain by a reduced type |
| `measured.py` | which operators TensorRT builds in it (`scripts/reduced_types.py` asked) |
| `ports.py` | which inputs and outputs change their type, by ONNX's schemas and our definitions |
| `chains.py` | what computes indices, positions and angles, which rounding would move |
| `constants.py` | whether weights bear the type; the converted ones |
| `observe.py` | how large values get on example inputs |
| `emulate.py` | what the reduced graph computes, shown by onnxruntime, for the verdict |
| `sums.py` | how many products a node sums, and which TensorRT sums them in float16 |
| `sum_noise.py` | what such sums cost, shown by onnxruntime |
| `opset.py` | whether the model's opset knows bfloat16; a later one |
| `widen.py` | the other way: a half-precision network in float32 |
"""
