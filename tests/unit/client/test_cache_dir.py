"""Where kernels go: precedence, characters, and folders that must not be used."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from farm.client.cache_dir import find_cache_dir, resolve_cache_dir
from farm.client.folder import KernelFolder
from farm.errors import InputError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "ASCEND_CACHE_PATH": str(tmp_path / "ascend")}


def test_option_before_environment_before_home(tmp_path: Path, env: dict[str, str]) -> None:
    option = str(tmp_path / "option")
    assert resolve_cache_dir(option, env) == tmp_path / "option" / "kernel_cache"
    assert resolve_cache_dir(None, env) == tmp_path / "ascend" / "kernel_cache"
    del env["ASCEND_CACHE_PATH"]
    assert resolve_cache_dir(None, env) == tmp_path / "home" / "atc_data" / "kernel_cache"


def test_who_only_looks_finds_the_same_folder_and_makes_none(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    options = (None, str(tmp_path / "option"), str(tmp_path / "link" / "a"))
    found = [find_cache_dir(option, env) for option in options]
    assert find_cache_dir(str(tmp_path / "loop"), env).name == "kernel_cache"
    assert sorted(tmp_path.rglob("*")) == before
    assert found == [resolve_cache_dir(option, env) for option in options]


@pytest.mark.parametrize("value", ["", " ", "\t "])
def test_empty_environment_counts_as_unset(tmp_path: Path, env: dict[str, str], value: str) -> None:
    assert resolve_cache_dir(None, env | {"ASCEND_CACHE_PATH": value}).parent == tmp_path / "home" / "atc_data"


def test_blanks_around_the_environment_are_trimmed(tmp_path: Path, env: dict[str, str]) -> None:
    env["ASCEND_CACHE_PATH"] = f" \t{tmp_path}/a\t "
    assert resolve_cache_dir(None, env).parent == tmp_path / "a"


def test_kernel_cache_is_always_appended(tmp_path: Path) -> None:
    for name in ("kernel_cache", "算子缓存"):
        given = tmp_path / name
        kernels = resolve_cache_dir(str(given), {})
        assert kernels == given / "kernel_cache"
        assert KernelFolder(kernels, "Ascend910B1").path == given / "kernel_cache" / "Ascend910B1"


def test_an_empty_option_is_refused() -> None:
    with pytest.raises(InputError, match="op_compiler_cache_dir is empty"):
        resolve_cache_dir("", {})


@pytest.mark.parametrize("option", [".", "..", "a", "./a/../b"])
def test_relative_folders_hold_only_their_kernel_cache(tmp_path: Path, monkeypatch, option: str) -> None:
    work = tmp_path / "x" / "y"
    work.mkdir(parents=True)
    (work / "notes.txt").write_text("mine")
    (work / "a").mkdir()
    monkeypatch.chdir(work)
    kernels = resolve_cache_dir(option, {})
    assert kernels == (work / option).resolve() / "kernel_cache"
    assert (work / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["算子缓存_v1.0", "㐀", "豈", "𠀀", "々〇", "A-b_c.9", "..."])
def test_allowed_characters(tmp_path: Path, name: str) -> None:
    kernels = resolve_cache_dir(str(tmp_path / name), {})
    assert kernels.is_dir()
    assert kernels.parent.name == name


@pytest.mark.parametrize(
    ("character", "named"),
    [(" ", "U+0020 SPACE"), (":", "U+003A COLON"), ("*", "U+002A"), ("\n", "U+000A"), ("\0", "U+0000"),
     ("🙂", "U+1F642"), ("~", "U+007E"), ("@", "U+0040"), ("\\", "U+005C"), ("é", "U+00E9"), ("\uff41", "U+FF41"),
     ("か", "U+304B"), ("한", "U+D55C"), ("。", "U+3002"), ("\u200b", "U+200B"), ("\udcff", "U+FFFD")],
)  # fmt: skip
def test_refused_characters_are_named(tmp_path: Path, character: str, named: str) -> None:
    value = f"{tmp_path}/ab{character}算"
    for option, env in ((value, {}), (None, {"ASCEND_CACHE_PATH": value})):
        with pytest.raises(InputError) as told:
            resolve_cache_dir(option, env)
        assert named in told.value.message
        assert ("op_compiler_cache_dir" if option else "ASCEND_CACHE_PATH") in told.value.message
    assert list(tmp_path.iterdir()) == []


def test_home_may_hold_any_character(tmp_path: Path) -> None:
    home = tmp_path / "my home@work"
    assert resolve_cache_dir(None, {"HOME": str(home)}) == home / "atc_data" / "kernel_cache"


def test_missing_levels_are_made_for_user_and_group(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kernels = resolve_cache_dir(str(tmp_path / "a" / "b"), {})
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", kernels):
        assert folder.stat().st_mode & 0o7777 == 0o750


def test_a_link_in_the_path_is_followed_kernel_cache_itself_is_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert resolve_cache_dir(str(tmp_path / "link"), {}) == tmp_path / "real" / "kernel_cache"
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "kernel_cache").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match="symbolic link"):
        resolve_cache_dir(str(tmp_path / "base"), {})


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for option in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"(?i)not a directory"):
            resolve_cache_dir(str(option), {})
    (tmp_path / "kernel_cache").write_text("mine")
    with pytest.raises(InputError, match="is no folder"):
        resolve_cache_dir(str(tmp_path), {})
    assert (tmp_path / "kernel_cache").read_text() == "mine"


def test_a_folder_that_can_not_be_made_or_written() -> None:
    # Nobody makes folders there, root neither.
    with pytest.raises(InputError, match=r"/proc/opfarm.*can not be used"):
        resolve_cache_dir("/proc/opfarm", {})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("locked", ["", "kernel_cache"])
def test_a_folder_of_the_user_that_may_not_be_written(locked: str) -> None:
    """Root may write everywhere, so a child becomes somebody else."""
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        (Path(base) / locked).mkdir(exist_ok=True)
        os.chown(Path(base) / locked, 65534, 65534)
        (Path(base) / locked).chmod(0o500)
        script = (
            "import os, sys\nfrom farm.client.cache_dir import resolve_cache_dir\n"
            "from farm.errors import InputError\nos.setuid(65534)\n"
            "try:\n    resolve_cache_dir(sys.argv[1], {})\nexcept InputError as error:\n    print(error.message)\n"
        )
        told = subprocess.run(
            [sys.executable, "-P", "-c", script, base], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        assert told == f"cache folder {base}/kernel_cache can not be used: Permission denied\n"


def test_a_folder_that_everybody_may_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "kernel_cache").mkdir()
    (tmp_path / "kernel_cache").chmod(0o1777)
    with pytest.raises(InputError, match="every user"):
        resolve_cache_dir(str(tmp_path), {})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "kernel_cache").mkdir()
    os.chown(tmp_path / "kernel_cache", 65534, 65534)
    with pytest.raises(InputError, match="another user"):
        resolve_cache_dir(str(tmp_path), {})
    assert list((tmp_path / "kernel_cache").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_a_disk_that_gives_our_files_to_another_user_can_be_used(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "kernel_cache").mkdir()
    os.chown(tmp_path / "kernel_cache", 65534, 65534)
    real_open = os.open

    def squashing_open(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        if "opfarm-owner" in str(path):
            os.fchown(descriptor, 65534, 65534)
        return descriptor

    monkeypatch.setattr(os, "open", squashing_open)
    assert resolve_cache_dir(str(tmp_path), {}) == tmp_path / "kernel_cache"


@pytest.mark.parametrize("name", ["算" * 250, "a" * 300, "/".join(["a" * 200] * 25)])
def test_too_long_paths_are_explained(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"a part may have 255 bytes, a path 4095"):
        resolve_cache_dir(str(tmp_path / name), {})


LOCALES = [
    {"LC_ALL": "C"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C.UTF-8"},
]


@pytest.mark.parametrize("locale", LOCALES, ids=["C", "C and ASCII", "UTF-8"])
@pytest.mark.parametrize("given_by", ["environment", "option"])
def test_han_characters_in_any_locale(tmp_path: Path, locale: dict[str, str], given_by: str) -> None:
    folder = tmp_path / "算子缓存_v1.0"
    script = (
        "import os\n"
        "from farm.client.cache_dir import resolve_cache_dir\n"
        f"option = {str(folder)!a} if {given_by == 'option'} else None\n"
        "print(os.fsencode(resolve_cache_dir(option, os.environ)).hex())\n"
        "try:\n"
        f"    resolve_cache_dir({str(folder) + ':'!a}, {{}})\n"
        "except Exception as error:\n"
        "    print(ascii(str(error)))\n"
    )
    env = os.environ | locale | {"ASCEND_CACHE_PATH": str(folder)}
    got = subprocess.run(
        [sys.executable, "-P", "-c", script], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    path, error = got.stdout.splitlines()
    assert bytes.fromhex(path).decode() == str(folder / "kernel_cache")
    assert ascii("算子缓存_v1.0:")[1:-1] in error
    assert (folder / "kernel_cache").is_dir()
