"""Owner labels: what is given and what is found, and how much of it."""

from __future__ import annotations

import pytest

from farm.client.identity import owner_labels
from farm.errors import InputError


def given(text: str) -> dict[str, str]:
    found = owner_labels(None, {})
    return {name: value for name, value in owner_labels(text, {}).items() if found.get(name) != value}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("team=a, run = 算子 7,,", {"team": "a", "run": "算子 7"}),
        ("me", {"owner": "me"}),
        ("user=other,a=b=c", {"user": "other", "a": "b=c"}),
        (f"{'n' * 64}={'v' * 256}", {"n" * 64: "v" * 256}),
        (",".join(f"k{n}=v" for n in range(16)), {f"k{n}": "v" for n in range(16)}),
    ],
)
def test_labels(text: str, labels: dict[str, str]) -> None:
    assert given(text) == labels


def test_what_is_found_is_there_without_any() -> None:
    assert owner_labels(None, {}).keys() == {"user", "host"}
    assert owner_labels("", {"SLURM_CLUSTER_NAME": "c"})["cluster"] == "c"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=\x1b[2J", "can not be shown"),
        ("x" * 257, "its name has 5 characters, its value 257"),
        (f"{'n' * 65}=v", "its name has 65 characters, its value 1"),
        (f"team={'v' * 3_000_000}", "its value 3000000"),
        ("\n" * 3_000_000, "can not be shown"),
        ("a=1," * 17, "owner has 17 labels"),
    ],
)
def test_labels_that_are_refused_are_named_in_short(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        owner_labels(text, {})
    assert len(str(refused.value)) < 300
