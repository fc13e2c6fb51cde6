"""What the operators of docs/examples/cuda should compute, in plain Python floats; no concern for speed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.integration import reference_ops as cpp
from tests.integration.reference_ops import Shape, Values, mean, rows


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def swiglu(shapes: list[Shape], x: Values) -> Values:
    half = shapes[0][1] // 2
    return [g / (1 + math.exp(-g)) * up for row in rows(x, 2 * half) for g, up in zip(row, row[half:], strict=False)]


def along(function: Callable[[Values], float]) -> Callable[..., Values]:
    """A reduction of one axis of a matrix."""

    def reduced(shapes: list[Shape], x: Values, *, axis: int) -> Values:
        width = shapes[0][1]
        return [function(row) for row in (rows(x, width) if axis == -1 else (x[c::width] for c in range(width)))]

    return reduced


def gather(shapes: list[Shape], table: Values, index: Values, *, axis: int) -> Values:
    chosen = list(rows(table, shapes[0][1]))
    nothing = [0.0] * shapes[0][1]
    return [v for i in index for v in (chosen[int(i)] if 0 <= i < len(chosen) else nothing)]


def cross_entropy(shapes: list[Shape], x: Values, labels: Values) -> Values:
    loss = []
    for row, label in zip(rows(x, shapes[0][1]), labels, strict=True):
        known = 0 <= label < len(row)
        loss.append(math.log(sum(math.exp(v) for v in row)) - row[int(label)] if known else 0.0)
    return loss


def cumsum(shapes: list[Shape], x: Values, *, axis: int) -> Values:
    out: Values = []
    for row in rows(x, shapes[0][1]):
        total = 0.0
        out += [total := total + v for v in row]
    return out


def quantize(shapes: list[Shape], x: Values, *, axis: int) -> tuple[Values, Values]:
    scales = [max(map(abs, row)) / 127 for row in rows(x, shapes[0][1])]
    out = [round(v / s) for row, s in zip(rows(x, shapes[0][1]), scales, strict=True) for v in row]
    return [float(v) for v in out], scales


def dequantize(shapes: list[Shape], x: Values, scales: Values, *, axis: int) -> Values:
    return [v * s for row, s in zip(rows(x, shapes[0][1]), scales, strict=True) for v in row]


def attention(shapes: list[Shape], q: Values, k: Values, v: Values, *, causal: bool) -> Values:
    _, length, dim = shapes[0]
    out: Values = []
    for queries, keys, values in zip(*(rows(x, length * dim) for x in (q, k, v)), strict=True):
        by_key, columns = list(rows(keys, dim)), [values[d::dim] for d in range(dim)]
        for position, query in enumerate(rows(queries, dim)):
            seen = by_key[: position + 1] if causal else by_key
            powers = [math.exp(sum(map(float.__mul__, query, key)) / math.sqrt(dim)) for key in seen]
            total = sum(powers)
            out += [sum(map(float.__mul__, powers, column)) / total for column in columns]
    return out


def rope(shapes: list[Shape], x: Values, *, base: float) -> Values:
    length, heads, dim = shapes[0]
    out = [0.0] * len(x)
    for head in range(heads):
        at = [(p * heads + head) * dim + i for p in range(length) for i in range(dim)]
        for i, value in zip(at, cpp.rope([[length, dim]], [x[i] for i in at], base=base), strict=True):
            out[i] = value
    return out


_SHARED = (
    "Add",
    "Sub",
    "Mul",
    "Maximum",
    "BiasAdd",
    "Relu",
    "Silu",
    "Sigmoid",
    "Tanh",
    "Gelu",
    "Cast",
    "Softmax",
    "LayerNorm",
    "RMSNorm",
    "MatMul",
    "Transpose",
)
#: Operator type → function(shapes of the inputs, *inputs, **attributes).
REFERENCE: dict[str, Callable[..., Any]] = {
    **{name: cpp.REFERENCE[name] for name in _SHARED},
    "BiasGelu": lambda shapes, x, bias: [gelu(v) for v in cpp.REFERENCE["BiasAdd"](shapes, x, bias)],
    "MatMulGelu": lambda shapes, a, b: [gelu(v) for v in cpp.matmul(shapes, a, b)],
    "SwiGLU": swiglu,
    "ReduceSum": along(sum),
    "ReduceMax": along(max),
    "ReduceMean": along(mean),
    "ArgMax": along(lambda row: row.index(max(row))),
    "Gather": gather,
    "CrossEntropy": cross_entropy,
    "CumSum": cumsum,
    "DynamicQuantize": quantize,
    "Dequantize": dequantize,
    "Attention": attention,
    "RotaryEmbedding": rope,
}
