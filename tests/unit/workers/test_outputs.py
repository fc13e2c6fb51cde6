from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers import outputs
from workers.outputs import BadOutputs, collect


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in ("a.o", "a.json", "meta/b.o", "meta/deep/c.o", "we[i]rd.o"):
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "out"


def names(out: Path, *patterns: str) -> list[str]:
    return [file.name for file in collect(out, patterns)]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*.o"], ["a.o", "we[i]rd.o"]),
        (["a.o"], ["a.o"]),
        (["a.?"], ["a.o"]),
        (["we[i]rd.o"], ["we[i]rd.o"]),
        (["*.json", "*.o", "a.o"], ["a.json", "a.o", "we[i]rd.o"]),
        (["meta"], ["meta/b.o", "meta/deep/c.o"]),
        (["meta/"], ["meta/b.o", "meta/deep/c.o"]),
        (["meta/*.o"], ["meta/b.o"]),
        (["**/*.o"], ["a.o", "meta/b.o", "meta/deep/c.o", "we[i]rd.o"]),
        (["meta/**/c.o"], ["meta/deep/c.o"]),
        (["./a.o"], ["a.o"]),
        (["*"], ["a.json", "a.o", "meta/b.o", "meta/deep/c.o", "we[i]rd.o"]),
    ],
)
def test_patterns(patterns: list[str], expected: list[str], out: Path) -> None:
    assert names(out, *patterns) == expected


def test_contents_and_modes(out: Path) -> None:
    (out / "run").write_bytes(b"\0\xff")
    (out / "run").chmod(0o700)
    files = {file.name: file for file in collect(out, ["a.o", "run"])}
    assert (files["run"].data, files["run"].mode) == (b"\0\xff", 0o555)
    assert (files["a.o"].data, files["a.o"].mode) == (b"a.o", 0o444)


def test_a_pattern_without_a_file_says_what_there_is(out: Path) -> None:
    with pytest.raises(BadOutputs, match=r"no file that matches output '\*\.info' \(it left: a.json, a.o, meta"):
        collect(out, ["*.o", "*.info"])


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(BadOutputs, match="it left: nothing"):
        collect(tmp_path, ["*"])


def test_an_empty_file_spoils_the_whole(out: Path) -> None:
    (out / "a.json").write_text("")
    assert names(out, "*.o") == ["a.o", "we[i]rd.o"], "an empty file that nobody declared does not matter"
    with pytest.raises(BadOutputs, match=r"'a\.json' is empty"):
        collect(out, ["*.o", "*.json"])


def test_what_is_not_really_a_file_there_does_not_count(out: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not the compiler's")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.o").write_text("not the compiler's")
    (out / "link.txt").symlink_to(tmp_path / "secret")
    (out / "linked").symlink_to(tmp_path / "folder")
    os.mkfifo(out / "pipe.txt")
    with pytest.raises(BadOutputs, match="no file that matches"):
        collect(out, ["*.txt"])
    assert "linked/x.o" not in names(out, "**")


def test_too_much_is_refused_before_it_is_read(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "TOTAL_CAP_BYTES", 5)
    with pytest.raises(BadOutputs, match="at most 5"):
        collect(out, ["a.o", "a.json"])
