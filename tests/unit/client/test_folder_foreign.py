"""Things in the kernel folder that the farm did not make: not touched, not followed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.client import staging
from farm.client.folder import KernelFolder
from farm.errors import InputError
from tests.support.entries import KEY, SHA, bundle, bytes_of, content, make_writable, names_in


@pytest.mark.parametrize("name", ["../../../victim", "/etc/hostname", "ir/../kernel.o"])
def test_a_description_can_not_name_files_elsewhere(folder: KernelFolder, root: Path, name: str) -> None:
    folder.unpack(bundle(), SHA)
    victim = root.parent / "victim"
    victim.write_bytes(b"victim")
    description = root / "sm_90" / KEY.hex() / ".opfarm.json"
    row = json.loads(description.read_text())
    row["files"] = {name: {"mode": 0o444, "size_bytes": 6, "sha256": hashlib.sha256(b"victim").hexdigest()}}
    make_writable(description).write_text(json.dumps(row))
    assert folder.present(KEY, SHA) is None


@pytest.mark.parametrize("target", ["kernel.o", "ir/深/stage.mlir", "ir/深", "ir"])
def test_a_link_inside_an_entry_is_not_followed(folder: KernelFolder, root: Path, target: str) -> None:
    folder.unpack(bundle(), SHA)
    inside = root / "sm_90" / KEY.hex() / target
    outside = root.parent / "outside"
    inside.rename(outside)
    inside.symlink_to(outside)
    assert folder.present(KEY, SHA) is None  # though the bytes behind the link are right
    folder.unpack(bundle(), SHA)
    assert not inside.is_symlink()
    assert outside.exists()


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "link to folder", "link to file", "dead link"])
def test_what_the_farm_did_not_make_is_never_touched(folder: KernelFolder, root: Path, kind: str) -> None:
    victim = root.parent / "victim"
    victim.mkdir()
    (victim / ".opfarm.json").write_text("{}")
    (victim / "notes.txt").write_text("mine")
    final = root / "sm_90" / KEY.hex()
    match kind:
        case "folder":
            final.mkdir()
            (final / "notes.txt").write_text("mine")
        case "empty folder":
            final.mkdir()
        case "file":
            final.write_text("mine")
        case "link to folder":
            final.symlink_to(victim)
        case "link to file":
            final.symlink_to(victim / "notes.txt")
        case "dead link":
            final.symlink_to("nowhere")
    before = (final.lstat().st_ino, final.lstat().st_mtime_ns)
    with pytest.raises(InputError, match=f"{KEY.hex()} lies where an entry belongs"):
        folder.unpack(bundle(), SHA)
    assert (final.lstat().st_ino, final.lstat().st_mtime_ns) == before
    assert names_in(victim) == [".opfarm.json", "notes.txt"]
    assert names_in(root / "sm_90") == [KEY.hex()]


def test_a_link_at_the_temporary_name_is_not_followed(folder: KernelFolder, root: Path, monkeypatch) -> None:
    victim = root.parent / "victim"
    victim.mkdir()
    tokens = iter(["00" * 8, "11" * 8])
    monkeypatch.setattr(staging.secrets, "token_hex", lambda length: next(tokens))
    taken = staging.new_name(root / "sm_90", KEY)
    taken.symlink_to(victim)
    tokens = iter(["00" * 8, "11" * 8])
    assert content(folder.unpack(bundle(), SHA)) == bytes_of()
    assert taken.is_symlink()
    assert names_in(victim) == []
    staging.remove_strays(root / "sm_90")
    assert taken.is_symlink()
    assert victim.exists()


def test_a_link_at_the_lock_is_not_followed(folder: KernelFolder, root: Path) -> None:
    victim = root.parent / "victim"
    for target in (victim, root):
        lock = root / "sm_90" / f".{KEY.hex()}.lock"
        lock.symlink_to(target)
        with pytest.raises(InputError, match="is a link"), folder.lock(KEY):
            pytest.fail("must not get here")
        staging.remove_strays(root / "sm_90")
        assert lock.is_symlink()
        lock.unlink()
    assert not victim.exists()


@pytest.mark.parametrize("soc", ["", ".", "..", "a/b", "../x", "a b", "x" * 65])
def test_a_soc_is_one_plain_name(root: Path, soc: str) -> None:
    with pytest.raises(InputError, match="soc"):
        KernelFolder(root, soc)


@pytest.mark.parametrize("what", ["kernel_cache", "soc", "jobs"])
def test_a_link_in_place_of_a_folder_of_ours_is_refused(root: Path, what: str) -> None:
    victim = root.parent / "victim"
    victim.mkdir()
    if what != "kernel_cache":
        root.mkdir()
    if what == "jobs":
        (root / "sm_90").mkdir()
    {"kernel_cache": root, "soc": root / "sm_90", "jobs": root / "sm_90" / "jobs"}[what].symlink_to(victim)
    with pytest.raises(InputError, match="symbolic link"):
        KernelFolder(root, "sm_90").write_job("j", 1, {})
    assert names_in(victim) == []


def test_foreign_neighbours_stay(folder: KernelFolder, root: Path) -> None:
    (root / "notes.txt").write_text("mine")
    (root / "sm_90" / "notes.txt").write_text("mine")
    (root / "sm_90" / ".hidden.tmp").mkdir()
    folder.unpack(bundle(), SHA)
    staging.remove_strays(root / "sm_90")
    assert names_in(root) == ["notes.txt", "sm_90"]
    assert names_in(root / "sm_90") == sorted([".hidden.tmp", "notes.txt", KEY.hex()])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can drop its rights")
def test_a_folder_that_may_not_be_written_is_named() -> None:
    script = """
import os
from farm.client.folder import KernelFolder
from farm.errors import InputError
from pathlib import Path
os.setgid(65534); os.setuid(65534)
try:
    KernelFolder(Path("/usr/lib"), "sm_90")
except InputError as error:
    print(error.message)
"""
    run = [sys.executable, "-P", "-c", script]
    got = subprocess.run(run, check=True, capture_output=True, text=True, timeout=30)
    assert "cache folder /usr/lib can not be used: Permission denied" in got.stdout
