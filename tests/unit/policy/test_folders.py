"""The rule of folders alone, with the manual's own examples; what is made on disk is tested with the client."""

from __future__ import annotations

import pytest

from farm.errors import InputError
from farm.policy.folders import base_folder


def nobody() -> str:
    raise AssertionError("HOME is asked only when nothing else is set")


SET = {"ASCEND_CACHE_PATH": "/env", "HOME": "/home/test"}


@pytest.mark.parametrize(
    ("option", "environ", "folder"),
    [
        ("/option", SET, "/option"),
        (None, SET, "/env"),
        (None, SET | {"ASCEND_CACHE_PATH": ""}, "/home/test/atc_data"),
        (None, SET | {"ASCEND_CACHE_PATH": " \t"}, "/home/test/atc_data"),
        (None, SET | {"ASCEND_CACHE_PATH": "\t /env "}, "/env"),
        (None, {"HOME": "/home/test"}, "/home/test/atc_data"),
        (None, {"HOME": "/"}, "/atc_data"),
        (None, {"HOME": "/home/a b@c:~é\udcff"}, "/home/a b@c:~é\udcff/atc_data"),
        ("/home/test/kernel_cache", SET, "/home/test/kernel_cache"),
        ("/home/测试/算子_缓存-1.0", SET, "/home/测试/算子_缓存-1.0"),
        ("relative/../a", SET, "relative/../a"),
        ("-", SET, "-"),
    ],
)
def test_precedence(option: str | None, environ: dict[str, str], folder: str) -> None:
    assert base_folder(option, environ, nobody) == folder


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "", "ASCEND_CACHE_PATH": " "}])
def test_without_a_home_the_account_is_asked(environ: dict[str, str]) -> None:
    assert base_folder(None, environ, lambda: "/root") == "/root/atc_data"
    assert base_folder("/option", environ, nobody) == "/option"


@pytest.mark.parametrize(
    ("path", "named"),
    [("/a b", "character 3, ' ' (U+0020 SPACE)"), ("~/cache", "character 1, '~'"), ("$HOME/x", "character 1, '$'"),
     ("/a:b", "U+003A COLON"), ("/a\tb", "U+0009"), ("/算é", "character 3, 'é'")],
)  # fmt: skip
def test_nothing_is_expanded_and_the_refused_character_is_named(path: str, named: str) -> None:
    for option, environ in ((path, SET), (None, SET | {"ASCEND_CACHE_PATH": path})):
        with pytest.raises(InputError) as told:
            base_folder(option, environ, nobody)
        assert named in told.value.message
        assert ("op_compiler_cache_dir" if option else "ASCEND_CACHE_PATH") in told.value.message


@pytest.mark.parametrize("option", [" /a", "/a ", " "])
def test_blanks_around_the_option_are_refused(option: str) -> None:
    with pytest.raises(InputError, match="SPACE"):
        base_folder(option, SET, nobody)


def test_an_empty_option_is_no_option() -> None:
    with pytest.raises(InputError, match="op_compiler_cache_dir is empty"):
        base_folder("", SET, nobody)
