"""Core counts: what an installation of CANN says, and what is known without one."""

from __future__ import annotations

from pathlib import Path

from farm.policy.cores import BUILT_IN, CoreCounts
from workers.core_counts import known_core_counts, served


def test_the_installation_wins_over_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "x86_64-linux" / "data" / "platform_config"
    folder.mkdir(parents=True)
    (folder / "Ascend910B1.ini").write_text("[SoCInfo]\nai_core_cnt=20\ncube_core_cnt=20\nvector_core_cnt=40\n")
    (folder / "Ascend999.ini").write_text(
        "[SoCInfo]\ncube_core_cnt=2\nvector_core_cnt=4\n[AICoreSpec]\ncube_core_cnt=9\n"
    )
    (folder / "Ascend310P3.ini").write_text("[SoCInfo]\nai_core_cnt=8\nvector_core_cnt=8\n")
    (folder / "broken.ini").write_bytes(b"\xff\xfe\0")
    (folder / "folder.ini").mkdir()
    known = known_core_counts({"ASCEND_HOME_PATH": str(tmp_path)})
    assert known["Ascend910B1"] == CoreCounts(20, 40)
    assert known["Ascend999"] == CoreCounts(2, 4)
    assert known["Ascend910B3"] == BUILT_IN["Ascend910B3"]
    assert not {"Ascend310P3", "broken", "folder"} & known.keys()


def test_without_an_installation_the_table_is_used(tmp_path: Path) -> None:
    for home in ("", "  ", str(tmp_path / "gone")):
        assert known_core_counts({"ASCEND_HOME_PATH": home}) == BUILT_IN


def test_a_toolchain_tells_of_what_it_compiles_for() -> None:
    known = {"a": CoreCounts(1, 2), "b": CoreCounts(3, 4)}
    assert served(known, ("b", "c")) == {"b": (3, 4)}
    assert served(known, ()) == {"a": (1, 2), "b": (3, 4)}
