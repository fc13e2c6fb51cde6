"""URLs with passwords come from files too, as secrets are mounted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.settings import Settings

URL = "redis://:secret@server:6379/0"


@pytest.mark.parametrize("name", ["index_url", "broker_url", "result_url"])
def test_a_url_is_read_from_the_file_that_its_variable_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "url").write_text(f"{URL}\n")
    settings = Settings.read({f"FARM_{name.upper()}_FILE": str(tmp_path / "url")})
    assert getattr(settings, name) == URL


def test_what_is_given_by_name_wins(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL)
    assert Settings.read({"FARM_INDEX_URL_FILE": str(tmp_path / "url")}, index_url="redis://other").index_url == (
        "redis://other"
    )


def test_an_empty_variable_counts_as_unset() -> None:
    assert Settings.read({"FARM_INDEX_URL_FILE": "", "FARM_INDEX_URL": URL}).index_url == URL


def test_both_forms_at_once_contradict(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL)
    with pytest.raises(InputError, match="FARM_INDEX_URL and FARM_INDEX_URL_FILE are both set"):
        Settings.read({"FARM_INDEX_URL_FILE": str(tmp_path / "url"), "FARM_INDEX_URL": URL})


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b" \n", "it is empty"), (b"\xff\xfe", "it is no text")]
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=reason) as refused:
        Settings.read({"FARM_INDEX_URL_FILE": str(file)})
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("name", ["index_url", "broker_url", "result_url"])
def test_what_has_no_end_or_makes_wait_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long").write_bytes(b"x" * 65537)
    for file, reason in (
        ("/dev/zero", "no regular file"),
        (tmp_path / "fifo", "no regular file"),
        (tmp_path, "no regular file"),
        (tmp_path / "long", "more than 65536 bytes"),
    ):
        with pytest.raises(InputError, match=f"FARM_{name.upper()}_FILE = '{file}'.*{reason}"):
            Settings.read({f"FARM_{name.upper()}_FILE": str(file)})
