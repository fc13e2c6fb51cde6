"""The file of profiles: what it may hold, and where its errors are placed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.settings import Settings
from workers.toolchains import profiles
from workers.toolchains.profiles.file import read
from workers.toolchains.profiles.lines import line_of
from workers.toolchains.profiles.tables import ProfileTable
from workers.toolchains.profiles.template import fill, placeholders

GOOD = """\
# a comment
[profile.good]
argv = [
  "cc",
  "{source}",
]
outputs = ["*.o"]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    return path


def wrong(tmp_path: Path, text: str, name: str = "bad") -> str:
    """Why a profile is wrong, without the file's folder."""
    found = read(written(tmp_path, text), ["host"]).profiles[name]
    assert isinstance(found, str), found
    return found.removeprefix(f"{tmp_path}/")


def test_a_profile_needs_two_keys(tmp_path: Path) -> None:
    profile = read(written(tmp_path, GOOD), []).profiles["good"]
    assert isinstance(profile, ProfileTable)
    assert (profile.argv, profile.outputs, profile.hash, profile.options) == (["cc", "{source}"], ["*.o"], [], {})


BAD = '\n[profile.bad]\nargv = ["cc"]\noutputs = ["*.o"]\n'  # the table stands on line 9 of GOOD + BAD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n[profile.bad]\n", "profiles.toml:9: profile.bad.argv: is missing"),
        (BAD.replace("argv", "arvg"), "profiles.toml:10: profile.bad.arvg: is no known key (did you mean argv?)"),
        (BAD + "flags = 1", "profiles.toml:12: profile.bad.flags: is no known key (valid: argv, outputs, env, "),
        (BAD.replace('["cc"]', '"cc"'), "profiles.toml:10: profile.bad.argv: must be a list of texts; given 'cc'"),
        (BAD.replace('["cc"]', "[]"), "profiles.toml:10: profile.bad.argv: must not be empty"),
        (BAD.replace('["cc"]', '["cc", 3]'), "profiles.toml:10: profile.bad.argv[1]: must be text; given 3"),
        (
            BAD.replace('["cc"]', '[\n  "cc",\n  "{spurce}",\n]'),
            "profiles.toml:10: profile.bad.argv[1]: unknown placeholder {spurce} in '{spurce}'; valid: {source} ",
        ),
        (BAD.replace('["cc"]', '["cc", "a{b"]'), "profiles.toml:10: profile.bad.argv[1]: a single { in 'a{b'"),
        (BAD.replace('["cc"]', '["{source}"]'), "profiles.toml:10: profile.bad.argv[0]: unknown placeholder {source}"),
        (BAD.replace('["cc"]', '["cc", "{options}", "{options}"]'), "profiles.toml:10: profile.bad.argv: {options} "),
        (BAD.replace("*.o", "../*.o"), "profiles.toml:11: profile.bad.outputs[0]: '../*.o' is not a pattern"),
        (BAD + 'timeout_seconds = "1"', "profiles.toml:12: profile.bad.timeout_seconds: must be a number of seconds; "
         "valid: more than 0, at most 604800 (a week); given '1'"),
        (BAD + "timeout_seconds = 0", "profiles.toml:12: profile.bad.timeout_seconds: valid: more than 0, at most"),
        (BAD + "timeout_seconds = 604801", "profiles.toml:12: profile.bad.timeout_seconds: valid: more than 0"),
        (BAD + "[profile.bad.env]\n\nX = 1", "profiles.toml:14: profile.bad.env.X: must be text; given 1"),
        (BAD + '[profile.bad.env]\n"A B" = ""', "profiles.toml:13: profile.bad.env.A B: is not the name of a variable"),
        (BAD + 'env = {X = "{include_dir}"}', "profiles.toml:12: profile.bad.env.X: unknown placeholder {include_dir}"),
        (BAD + 'socs = ["a", "b c"]', "profiles.toml:12: profile.bad.socs[1]: 'b c' is not a processor type"),
        (BAD + "options.x = {}", "profiles.toml:12: profile.bad.options.x.kind: is missing"),
        (
            BAD + '[profile.bad.options.x]\nkind = "text"\nargv = [""]',
            "profiles.toml:13: profile.bad.options.x.kind: valid: 'str', 'int', 'bool', 'strings' or 'map'; given",
        ),
        (
            BAD + 'options.x = {kind = "bool", argv = ["{value}"]}',
            "profiles.toml:12: profile.bad.options.x.argv[0]: unknown placeholder {value} in '{value}'; valid: none",
        ),
        (
            BAD + '[profile.bad.options.x]\nkind = "int"\nargv = ["-x"]\ndefault = "1"',
            "profiles.toml:15: profile.bad.options.x.default: must be a whole number, given '1'",
        ),
        (
            BAD + '[profile.bad.options.x]\nkind = "str"\nchoices = ["a"]\nargv = ["-x"]\ndefault = "b"',
            "profiles.toml:16: profile.bad.options.x.default: 'b' is not valid; valid: a",
        ),
        (
            BAD + '[profile.bad.options.x]\nkind = "int"\nchoices = ["1"]\nargv = ["-x"]',
            "profiles.toml:14: profile.bad.options.x.choices: an option of kind int has none",
        ),
        (BAD + 'options."a b" = {kind = "int", argv = ["x"]}', "profiles.toml:12: profile.bad.options.a b: is not the"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_told_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    assert wrong(tmp_path, GOOD + text).startswith(message)


def test_names_that_can_not_be(tmp_path: Path) -> None:
    text = '[profile.host]\n[profile."a b"]\n'
    assert wrong(tmp_path, text, "host").startswith("profiles.toml:1: profile.host: there is a toolchain host already")
    assert wrong(tmp_path, text, "a b").startswith("profiles.toml:2: profile.a b: is not a toolchain's name (valid: 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[profile.x]\nargv = [\n", "profiles.toml: is not TOML: .* \\(at (line 3|end of document)"),
        ("[profile.x]\nargv = 1\nargv = 2\n", "profiles.toml: is not TOML: .*line 3"),
        ("\n[profiles.x]\n", r"profiles.toml:2: profiles: is no known table \(write \[profile.NAME\]\)"),
        ("profile = 1", "profiles.toml:1: profile: must be a table"),
        ("\xff", "is not UTF-8 text"),
        (None, "FARM_TOOLCHAINS_FILE .*profiles.toml' does not exist"),
    ],
)
def test_a_file_that_is_none_is_refused_as_a_whole(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        profiles.find(Settings.read({"FARM_TOOLCHAINS_FILE": str(path)}), ["host"])
    assert re.search(message, str(caught.value)), caught.value


def test_a_relative_name_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.read({"FARM_TOOLCHAINS_FILE": "p.toml"}).toolchains_file == tmp_path / "p.toml"
    assert Settings.read({}).toolchains_file is None


@pytest.mark.parametrize("page", ["extending.md", "examples/profiles/cann.toml"])
def test_what_the_documentation_shows_is_right(page: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) or [text]:
        found = read(written(tmp_path, block), ["host", "cuda", "command"]).profiles
        assert found and not [item for item in found.values() if isinstance(item, str)]


def test_lines() -> None:
    text = 'a = """\n[b]\n"""\n\n# c\n[b.c]\nd = [\n 1,\n]\ne.f = 1\n\n[[g]]\nh = 1\n'
    assert [line_of(text, path) for path in (["a"], ["b"], ["b", "c", "d", 0], ["b", "c", "e", "f"])] == [1, 6, 7, 10]
    assert [line_of(text, path) for path in (["g"], ["nope"], ["b", "c", "nope"])] == [12, 1, 6]


def test_placeholders_are_filled_once() -> None:
    values = {"a": "{b}", "b": "x"}
    assert fill("{a}{{b}}{b}}}", values) == "{b}{b}x}"
    assert placeholders("{a}-{{x}}", values) == {"a"}
    for bad in ("{", "}", "{c}", "{}", "{{a}"):
        with pytest.raises(ValueError):
            placeholders(bad, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "[" * 2000 + "]" * 2000, "is not TOML: line 1 is nested more than 64 levels deep"),
        ("\nx = " + "{a = " * 2000, "is not TOML: line 2 is nested more than 64 levels deep"),
        ("x = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("# " + "x" * 65536, "has more than 65536 bytes"),
    ],
)
def test_what_tomllib_can_not_take_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read(written(tmp_path, text), [])


@pytest.mark.parametrize("key", ["version", "hash"])
def test_a_word_with_nul_is_none(key: str, tmp_path: Path) -> None:
    text = GOOD + BAD + f'{key} = ["cc", "a\\u0000b"]\n'
    assert wrong(tmp_path, text).startswith(f"profiles.toml:12: profile.bad.{key}[1]: 'a\\x00b' holds a NUL")


@pytest.mark.parametrize(
    "value", ['"""' + "\ny" * 30_000 + '"""', "[" + "\n1," * 15_000 + "]", "'''\n[x]\na = 1\n'''", "'\"' # ]["]
)
def test_the_line_behind_a_long_or_misleading_value(value: str, tmp_path: Path) -> None:
    begun = time.process_time()
    text = f"{GOOD}[profile.bad]\nmuch = {value}\nargv = 1\noutputs = []\n"
    assert line_of(text, ("profile", "bad", "argv")) == GOOD.count("\n") + value.count("\n") + 3
    assert line_of(text, ("profile", "bad", "much", 3)) == GOOD.count("\n") + 2
    assert time.process_time() - begun < 5
