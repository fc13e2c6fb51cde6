from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from farm.errors import FarmRefused, InputError
from farm.request.model import Blob, Source
from tests.unit.workers.requests import source, tree
from workers.scratch import Scratch, ScratchArea


def test_files_lie_where_the_source_expects_them(tmp_path: Path) -> None:
    files = {"a.h": "a", "sub/b.h": "b", "../c.h": "c", "../../lib/z.h": "z"}
    scratch = Scratch.lay_out(tmp_path, source("main", files, {"e.h": "e"}, {"e.h": "other", "f/g.h": "g"}))
    folder = scratch.source.parent
    assert scratch.source.read_text() == "main"
    assert {name: (folder / name).read_text() for name in files} == files
    assert [tree(each) for each in scratch.include_dirs] == [["e.h"], ["e.h", "f/g.h"]]
    assert tree(tmp_path / "src") == ["d/c.h", "d/d/a.h", "d/d/source.cpp", "d/d/sub/b.h", "lib/z.h"]
    assert scratch.out.is_dir() and scratch.tmp.is_dir()


def test_every_file_has_a_time_of_its_own_the_same_each_time(tmp_path: Path) -> None:
    def times(root: Path, files: dict[str, str]) -> dict[str, float]:
        Scratch.lay_out(root, source("x", files, files))
        return {name: (root / name).stat().st_mtime for name in tree(root)}

    first = times(tmp_path / "1", {"a.h": "x", "b.h": "x"})
    assert len(set(first.values())) == len(first) == 5
    assert times(tmp_path / "2", {"b.h": "x", "a.h": "x"}) == first


def test_a_source_alone(tmp_path: Path) -> None:
    scratch = Scratch.lay_out(tmp_path, source("x", suffix=".cu"))
    assert scratch.source == tmp_path / "src" / "source.cu"
    assert scratch.include_dirs == ()


@pytest.mark.parametrize(
    "files",
    [
        {"source.cpp": "its own include of itself"},
        {"source": "no suffix"},
        {"source/x.h": "a folder"},
        {"../d/x.h": "beside, in a folder called d", "x.h": "another x.h"},
        {"../d": "a file called d"},
    ],
)
def test_our_own_names_give_way_to_the_requests(files: dict[str, str], tmp_path: Path) -> None:
    for suffix in (".cpp", ""):
        scratch = Scratch.lay_out(tmp_path / f"with{suffix}", source("main", files, suffix=suffix))
        assert scratch.source.read_text() == "main"
        assert {name: (scratch.source.parent / name).read_text() for name in files} == files


class Unchecked(Source):
    """What a request would be that did not go through the model's own checks."""

    def __post_init__(self) -> None:
        pass


@pytest.mark.parametrize("name", ["/etc/x", "a/../../../x", "../../x/../../../../y", "a\0b", "..", "", "."])
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leads out of its folder"):
        Scratch.lay_out(tmp_path / "root", Unchecked(".c", Blob.of(b""), {name: Blob.of(b"x")}))
    assert [path for path in tree(tmp_path) if "/src/" not in path] == []


def test_what_else_the_model_would_not_let_through(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="suffix"):
        Scratch.lay_out(tmp_path / "1", Unchecked("/../../x", Blob.of(b"")))
    with pytest.raises(InputError, match="clashes"):
        files = {"a": Blob.of(b"x"), "a/b": Blob.of(b"y")}
        Scratch.lay_out(tmp_path / "2", Unchecked(".c", Blob.of(b""), files))
    with pytest.raises(InputError, match="not at hand"):
        Scratch.lay_out(tmp_path / "3", Source(".c", Blob(bytes(32), 3)))


def test_a_fresh_folder_is_gone_afterwards_whatever_was_done_in_it(tmp_path: Path) -> None:
    area = ScratchArea.open(tmp_path)
    with pytest.raises(RuntimeError), area.fresh() as root:
        (root / "locked" / "deep").mkdir(parents=True)
        (root / "locked" / "deep" / "file").write_text("x")
        (root / "link").symlink_to(tmp_path)
        (root / "locked").chmod(0)
        raise RuntimeError
    assert list(area.folder.iterdir()) == [area.folder / "lock"]
    area.close()
    area.close()
    assert not area.folder.exists()
    assert tmp_path.exists()


@pytest.mark.parametrize("removed", ["the worker's folder", "all of them"])
def test_an_area_that_a_cleaner_removed_is_made_again(removed: str, tmp_path: Path) -> None:
    area = ScratchArea.open(tmp_path)
    gone = area.folder
    shutil.rmtree(gone if removed == "the worker's folder" else gone.parent)
    with area.fresh() as first, area.fresh() as second:
        assert first.parent == second.parent == area.folder != gone
        another = ScratchArea.open(tmp_path)
        assert first.exists(), "its lock is held"
    another.close()
    area.close()
    assert tree(tmp_path) == [f"opfarm-{os.getuid()}/lock"]


def test_strays_of_dead_workers_are_removed_and_the_livings_are_not(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with ScratchArea.open(tmp_path).fresh() as root:
            (root / "big").write_text("left behind")
            os._exit(0)  # the lock goes with the process, the folder stays
    os.waitpid(child, 0)
    base = tmp_path / f"opfarm-{os.getuid()}"
    assert len(tree(base)) == 3

    living = ScratchArea.open(tmp_path)
    with living.fresh() as root:
        (root / "mine").write_text("in use")
        another = ScratchArea.open(tmp_path)
        assert (root / "mine").exists()
    assert sorted(base.glob("worker-*")) == sorted([living.folder, another.folder])


@pytest.mark.parametrize("planted", ["link", "file", "open to others"])
def test_a_planted_base_folder_is_refused(planted: str, tmp_path: Path) -> None:
    base = tmp_path / f"opfarm-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if planted == "link":
        base.symlink_to(elsewhere)
    elif planted == "file":
        base.write_text("")
    else:
        base.mkdir()
        base.chmod(0o777)
    with pytest.raises(FarmRefused, match="TMPDIR"):
        ScratchArea.open(tmp_path)
    assert list(elsewhere.iterdir()) == []


def test_a_parent_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FarmRefused, match=f"{tmp_path}/file/opfarm"):
        ScratchArea.open(tmp_path / "file")
