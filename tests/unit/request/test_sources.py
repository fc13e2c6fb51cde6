"""The main file and what a compile depends on; the places of files never matter."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from farm.errors import InputError
from farm.request.key import key
from farm.request.manifest import load, parse
from tests.unit.request.conftest import Project
from tests.unit.request.sample import FINGERPRINT


def test_sources_that_are_no_regular_files(project: Project, refused: Any) -> None:
    loop = project.folder / "loop.cu"
    loop.symlink_to(loop)
    os.mkfifo(project.folder / "fifo.cu")
    (project.folder / "folder.cu").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(project.folder)
        server.bind("socket.cu")
        os.chdir(here)
        for name, told in (
            ("nowhere.cu", "does not exist"),
            ("k/add.cu/x", "does not exist"),
            ("loop.cu", "is a loop of symbolic links"),
            ("fifo.cu", "is not a regular file"),
            ("folder.cu", "is a folder"),
            ("socket.cu", "is not a regular file"),
            ("/dev/zero", "is not a regular file"),
            ("/dev/null", "is not a regular file"),
            ("x" * 5000, "has a name that is too long"),
            ("a\0b", "is not a file name"),
            ("", "is empty"),
        ):
            project.op["source"] = {"path": name}
            line = refused()
            assert line.startswith("ops.json: operator 'add': field source.path: ")
            assert told in line


def test_permission_words(project: Project, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def deny(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("add.cu"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", deny)
    assert "field source.path: " in refused()
    assert "k/add.cu' may not be read by this user" in refused()


def test_a_source_too_large(project: Project, refused: Any) -> None:
    with (project.folder / "k/add.cu").open("r+b") as file:
        file.truncate(16 * 2**20 + 1)
    assert "field source.path: " in refused()
    assert "has more than 16777216 bytes" in refused()


def test_without_a_folder_only_text_is_taken(project: Project, refused_document: Any) -> None:
    assert "field source.path: 'k/add.cu' is a path, and this manifest has no folder" in refused_document(
        project.manifest
    )
    project.op["source"] = {"text": "x", "include_dirs": ["inc"]}
    assert "field source.include_dirs[0]: 'inc' is a path" in refused_document(project.manifest)
    project.op["source"] = {"text": "x", "files": {"a.h": "y"}}
    assert parse(project.manifest, where="doc", folder=None)[0].source.files["a.h"].data == b"y"
    project.op["depends"] = ["bank"]
    assert "field depends[0]: 'bank' is a path" in refused_document(project.manifest)


def test_places_and_names_do_not_change_the_key(project: Project, tmp_path: Path) -> None:
    project.put(**{"inc/a.h": "1", "bank/t.json": "2"})
    project.op["source"]["include_dirs"] = ["inc"]
    project.op["depends"] = ["bank"]
    before = project.key()
    project.op["name"] = "another"
    assert project.key() == before
    for name, moved in (("k", "kernels/deep"), ("inc", "include"), ("bank", "x/bank")):
        shutil.copytree(tmp_path / name, tmp_path / moved)
    (tmp_path / "kernels/deep/add.cu").rename(tmp_path / "kernels/deep/renamed.cu")
    project.op["source"] = {"path": "kernels/deep/renamed.cu", "include_dirs": ["include/."]}
    project.op["depends"] = [str(tmp_path / "x/bank/")]
    assert project.key() == before
    os.utime(tmp_path / "kernels/deep/renamed.cu", (1, 1))
    assert project.key() == before


def test_the_folder_of_the_manifest_does_not_matter(project: Project, tmp_path: Path) -> None:
    before = project.key()
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    shutil.copytree(tmp_path / "k", copy / "k")
    shutil.copy(tmp_path / "ops.json", copy)
    (request,) = load(copy / "ops.json")
    assert key(request, FINGERPRINT) == before


def test_content_of_everything_named_changes_the_key(project: Project) -> None:
    project.file("bin/cc", "#!/bin/sh\n").chmod(0o755)
    project.put(**{"inc/s/a.h": "1", "bank/s/t.json": "2", "one.json": "3"})
    project.op["source"]["include_dirs"] = ["inc"]
    project.op.update(depends=["bank/", "one.json"], toolchain="command", options={"argv": ["bin/cc"]})
    keys = {project.key()}
    for name in ("k/add.cu", "k/half.h", "inc/s/a.h", "bank/s/t.json", "one.json", "bin/cc"):
        times = (project.folder / name).stat()
        with (project.folder / name).open("a") as file:
            file.write("// more\n")
        os.utime(project.folder / name, ns=(times.st_atime_ns, times.st_mtime_ns))
        keys.add(project.key())
    project.file("bank/new.json", "")
    keys.add(project.key())
    project.file("inc/new.h", "")
    keys.add(project.key())
    (project.folder / "bank/new.json").rename(project.folder / "bank/other.json")
    keys.add(project.key())
    assert len(keys) == 10


def test_depends_keep_apart_what_shares_a_name(project: Project) -> None:
    project.put(**{"a/bank": "1", "b/bank": "2", "bank#2": "3"})
    project.op["depends"] = ["bank#2", "a/bank", "b/bank", "b/../b/bank"]
    digests = project.load().depends
    assert set(digests) == {"bank#2", "bank", "bank#3", "bank#4"}
    assert digests["bank#3"] == digests["bank#4"]
    before = project.key()
    project.put(**{"a/bank": "2", "b/bank": "1"})
    assert project.key() != before


def test_depends_follow_links_and_survive_loops(project: Project) -> None:
    project.put(**{"outside/t": "1", "bank/x": "2"})
    bank = project.folder / "bank"
    (bank / "link").symlink_to("../outside")
    (bank / "loop").symlink_to("..")
    (bank / "loop2").symlink_to("loop2")
    os.mkfifo(bank / "pipe")
    project.op["depends"] = ["bank"]
    before = project.key()
    project.file("outside/t", "3")
    assert project.key() != before


def test_wrong_depends(project: Project, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, told in (
        ("nowhere", "does not exist"),
        ("x" * 5000, "has a name that is too long"),
        ("/dev/zero", "is not a regular file"),
        ("", "is empty"),
        ("a\0", "is not a"),
    ):
        project.op["depends"] = ["k", name]
        line = refused()
        assert "operator 'add': field depends[1]: " in line
        assert told in line
    project.op["depends"] = ["k"]
    monkeypatch.setattr("farm.request.trees.MAX_DEPENDS_FILES", 1)
    assert "field depends[0]: " in refused()


def test_what_would_take_minutes_to_hash_is_refused_at_once(project: Project, refused: Any) -> None:
    with project.file("bank/huge").open("r+b") as file:
        file.truncate(16 * 2**30 + 1)  # a hole, as large as /proc/kcore pretends to be
    for name in ("bank", "bank/huge"):
        project.op["depends"] = [name]
        assert "field depends[0]: " in refused()
        assert "more than 16 GiB" in refused()


@pytest.mark.parametrize("name", ["/proc/self/pagemap", "/proc/kmsg", "/proc/self/stat", "/sys/kernel/mm", "link"])
def test_what_the_kernel_makes_up_is_refused(project: Project, refused: Any, name: str) -> None:
    (project.folder / "link").symlink_to("/proc/self")
    if not (project.folder / name).exists():
        pytest.skip("not on this machine")
    project.op["depends"] = [name]
    assert "field depends[0]: " in (line := refused())
    assert "is made up by the kernel" in line
    project.op["depends"] = []
    project.op["source"] = {"path": "k/add.cu", "include_dirs": [name]}
    assert "field source.include_dirs[0]: " in refused()
    if (manifest := project.folder / name).is_file():
        with pytest.raises(InputError, match="is made up by the kernel"):
            load(manifest)


def test_a_file_that_grows_while_it_is_hashed(project: Project, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project.file("bank", "x" * 1000)
    project.op["depends"] = ["bank"]
    project.load()
    monkeypatch.setattr("farm.request.files.MAX_HASHED_BYTES", 999)
    short = project.file("short", "x").stat()
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: short if os.path.samestat(real(fd), file.stat()) else real(fd))
    assert "bank' has more than 0 GiB" in refused()


def test_files_shared_by_many_operators_are_read_once(
    project: Project, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.manifest["ops"] = [{**project.op, "name": f"op{at}"} for at in range(50)]
    opened: list[str] = []
    real = os.open

    def watched(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", watched)
    requests = load(write(project.manifest))
    assert len(requests) == 50
    assert len({id(one.source) for one in requests}) == 1
    assert sum(name.endswith("half.h") for name in opened) == 1
