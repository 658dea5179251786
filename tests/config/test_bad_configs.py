"""Every broken config gives exactly the message in ``NAME.txt``."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalplugin.base.errors import ConfigError
from evalplugin.features.config import load

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_bad_config_reports_message_and_location(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    with pytest.raises(ConfigError) as caught:
        load(Path(file.name))
    message = "\n".join(line.replace(str(BAD), "DIR") for line in caught.value.lines)
    assert message == file.with_suffix(".txt").read_text().rstrip("\n")


def test_bad_configs_have_expected_messages() -> None:
    assert len(FILES) >= 20
    assert {file.stem for file in FILES} == {file.stem for file in BAD.glob("*.txt")}
