"""What the operators of docs/examples/cpp should compute, in plain Python floats; no concern for speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

Values = list[float]
Shape = list[int]


def rows(x: Values, width: int) -> Iterator[Values]:
    for start in range(0, len(x), width):
        yield x[start : start + width]


def softmax(shapes: list[Shape], x: Values) -> Values:
    out: Values = []
    for row in rows(x, shapes[0][-1]):
        peak = max(row)
        powers = [math.exp(v - peak) for v in row]
        total = sum(powers)
        out += [p / total for p in powers]
    return out


def layer_norm(shapes: list[Shape], x: Values, gamma: Values, beta: Values, *, epsilon: float) -> Values:
    out: Values = []
    for row in rows(x, shapes[0][-1]):
        mean = sum(row) / len(row)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + epsilon)
        out += [(v - mean) * scale * g + b for v, g, b in zip(row, gamma, beta, strict=True)]
    return out


def rms_norm(shapes: list[Shape], x: Values, gamma: Values, *, epsilon: float) -> Values:
    out: Values = []
    for row in rows(x, shapes[0][-1]):
        scale = 1 / math.sqrt(sum(v * v for v in row) / len(row) + epsilon)
        out += [v * scale * g for v, g in zip(row, gamma, strict=True)]
    return out


def matmul(shapes: list[Shape], a: Values, b: Values) -> Values:
    (_, k), (_, n) = shapes
    columns = [b[c::n] for c in range(n)]
    return [sum(x * y for x, y in zip(row, col, strict=True)) for row in rows(a, k) for col in columns]


def transpose(shapes: list[Shape], x: Values) -> Values:
    width = shapes[0][1]
    return [v for c in range(width) for v in x[c::width]]


def gather(shapes: list[Shape], table: Values, index: Values) -> Values:
    chosen = list(rows(table, shapes[0][1]))
    return [v for i in index for v in chosen[int(i)]]


def rope(shapes: list[Shape], x: Values, *, base: float) -> Values:
    dim = shapes[0][1]
    out: Values = []
    for position, row in enumerate(rows(x, dim)):
        turned = [
            complex(a, b) * complex(math.cos(angle), math.sin(angle))
            for i, (a, b) in enumerate(zip(row[: dim // 2], row[dim // 2 :], strict=True))
            for angle in [position / base ** (2 * i / dim)]
        ]
        out += [z.real for z in turned] + [z.imag for z in turned]
    return out


def reduce(function: Callable[[Values], float]) -> Callable[..., Values]:
    def reduced(shapes: list[Shape], x: Values) -> Values:
        _, axis, inner = shapes[0]
        return [function(block[i::inner]) for block in rows(x, axis * inner) for i in range(inner)]

    return reduced


def windows(shape: Shape, kernel: int, stride: int, pad: int) -> Iterator[list[tuple[int, int]]]:
    """For each output point of one plane: (offset in the plane, offset in the kernel) of what it sees."""
    height, width = shape[-2:]
    for y in range(-pad, height + pad - kernel + 1, stride):
        for x in range(-pad, width + pad - kernel + 1, stride):
            points = [(y + i, x + j, i * kernel + j) for i in range(kernel) for j in range(kernel)]
            yield [(r * width + c, k) for r, c, k in points if 0 <= r < height and 0 <= c < width]


def conv2d(shapes: list[Shape], image: Values, weights: Values, **window: int) -> Values:
    (_, channels, height, width), (filters, *_) = shapes
    out: Values = []
    for planes in rows(image, channels * height * width):
        for f in range(filters):
            for seen in windows(shapes[0], **window):
                total = 0.0
                for c in range(channels):
                    start = (f * channels + c) * window["kernel"] ** 2
                    total += sum(planes[c * height * width + at] * weights[start + k] for at, k in seen)
                out.append(total)
    return out


def pool(function: Callable[[Values], float]) -> Callable[..., Values]:
    def pooled(shapes: list[Shape], image: Values, **window: int) -> Values:
        planes = rows(image, shapes[0][-2] * shapes[0][-1])
        return [function([p[at] for at, _ in seen]) for p in planes for seen in windows(shapes[0], **window)]

    return pooled


def each(function: Callable[..., float]) -> Callable[..., Values]:
    return lambda shapes, *inputs: [function(*values) for values in zip(*inputs, strict=True)]


def mean(values: Values) -> float:
    return sum(values) / len(values)


#: Operator type → function(shapes of the inputs, *inputs, **attributes).
REFERENCE: dict[str, Callable[..., Any]] = {
    "Add": each(lambda a, b: a + b),
    "Sub": each(lambda a, b: a - b),
    "Mul": each(lambda a, b: a * b),
    "Maximum": each(max),
    "BiasAdd": lambda shapes, x, bias: [v + b for row in rows(x, len(bias)) for v, b in zip(row, bias, strict=True)],
    "Relu": each(lambda x: max(x, 0)),
    "Gelu": each(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "Silu": each(lambda x: x / (1 + math.exp(-x))),
    "Sigmoid": each(lambda x: 1 / (1 + math.exp(-x))),
    "Tanh": each(math.tanh),
    "Softmax": lambda shapes, x, axis: softmax(shapes, x),
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "MatMul": matmul,
    "Transpose": lambda shapes, x, perm: transpose(shapes, x),
    "Gather": lambda shapes, table, index, axis: gather(shapes, table, index),
    "RotaryEmbedding": rope,
    "ReduceSum": lambda shapes, x, axis: reduce(sum)(shapes, x),
    "ReduceMax": lambda shapes, x, axis: reduce(max)(shapes, x),
    "ReduceMean": lambda shapes, x, axis: reduce(mean)(shapes, x),
    "Conv2D": conv2d,
    "MaxPool2D": pool(max),
    "AvgPool2D": pool(mean),
    "Cast": each(lambda x: x),
    "Quantize": lambda shapes, x, scale: [round(v / scale) for v in x],
}
