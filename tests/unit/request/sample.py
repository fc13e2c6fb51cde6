"""One ordinary request, for tests that change one thing about it."""

from __future__ import annotations

from typing import Any

from farm.request.model import Blob, Request, Source, Tensor

FINGERPRINT = "f0" * 32


def source(**changed: Any) -> Source:
    fields: dict[str, Any] = {
        "suffix": ".cu",
        "main": Blob.of(b'#include "half.h"\nint add;\n'),
        "files": {"half.h": Blob.of(b"// half"), "../up/one.h": Blob.of(b"// one")},
        "include_dirs": ({"a.h": Blob.of(b"// a"), "sub/b.h": Blob.of(b"// b")}, {"a.h": Blob.of(b"// other a")}),
    }
    return Source(**(fields | changed))


def sample(**changed: Any) -> Request:
    fields: dict[str, Any] = {
        "name": "add_fp16",
        "type": "Add",
        "soc": "sm_90",
        "toolchain": "cuda",
        "inputs": (Tensor((32, -1), "float16"), Tensor((32, 128), "float16", "NZ")),
        "outputs": (Tensor((32, 128), "float16"),),
        "attrs": {"axis": -1, "nested": {"eps": 1.5, "list": [1, "x", None]}},
        "source": source(),
        "entry": "add_kernel",
        "depends": {"bank": b"\1" * 32},
        "options": {"flags": ["-O2"], "defines": {"BLOCK": 256}},
    }
    return Request(**(fields | changed))
