from pathlib import Path

import platformdirs
import pytest

from outlast.errors import BadSettings
from outlast.settings import Settings, read_settings


@pytest.fixture
def near(tmp_path: Path) -> Path:
    """The working directory."""
    (tmp_path / "near").mkdir()
    return tmp_path / "near"


@pytest.fixture(autouse=True)
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration directory for outlast."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = Path(platformdirs.user_config_dir("outlast"))
    directory.mkdir(parents=True)
    return directory


def test_every_setting_has_a_default_that_works(near: Path) -> None:
    settings = read_settings({}, cwd=near)
    assert settings == Settings()
    assert settings.world_url == f"sqlite:{settings.data / 'world.db'}"
    assert settings.data.is_absolute()


def test_the_environment_goes_before_the_directory_and_that_before_the_user(near: Path, far: Path) -> None:
    (far / "outlast.toml").write_text('lease_s = 1\nconcurrency = 1\nlog_level = "info"\n')
    (near / "outlast.toml").write_text("lease_s = 2\nconcurrency = 2\n")
    settings = read_settings({"OUTLAST_LEASE_S": "3"}, cwd=near)
    assert (settings.lease_s, settings.concurrency, settings.log_level) == (3.0, 2, "info")


def test_a_variable_that_is_empty_is_not_set(near: Path) -> None:
    assert read_settings({"OUTLAST_WORLD": ""}, cwd=near).world == ""
    assert read_settings({"OUTLAST_CONCURRENCY": ""}, cwd=near).concurrency == 16


def test_values_have_the_type_of_their_setting(near: Path) -> None:
    (near / "outlast.toml").write_text("drain_s = 5\n")
    settings = read_settings({"OUTLAST_CONCURRENCY": "4", "OUTLAST_LEASE_S": "2"}, cwd=near)
    assert [type(value) for value in (settings.drain_s, settings.concurrency, settings.lease_s)] == [
        float,
        int,
        float,
    ]


def test_the_data_directory_may_be_in_the_user_s_home(near: Path, tmp_path: Path) -> None:
    settings = read_settings({"OUTLAST_DATA_DIR": "~/kept"}, cwd=near)
    assert settings.data == tmp_path / "kept"
    assert settings.world_url == f"sqlite:{tmp_path / 'kept' / 'world.db'}"


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("OUTLAST_LEASE_S", "soon", "it must be a number from 0.5 to 600"),
        ("OUTLAST_LEASE_S", "nan", "it must be a number from 0.5 to 600"),
        ("OUTLAST_LEASE_S", "0.1", "it must be a number from 0.5 to 600"),
        ("OUTLAST_CONCURRENCY", "2.5", "it must be a whole number from 1 to 1000"),
        ("OUTLAST_CONCURRENCY", "inf", "it must be a whole number from 1 to 1000"),
        ("OUTLAST_CONCURRENCY", "0", "it must be a whole number from 1 to 1000"),
        ("OUTLAST_ANTHROPIC_BASE_URL", "api.example", "it must begin with http:// or https://"),
        ("OUTLAST_LOG_LEVEL", "loud", "it must be one of debug, info, warning, error"),
    ],
)
def test_a_variable_that_does_not_fit_is_named_with_value_and_reason(
    near: Path, variable: str, value: str, reason: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        read_settings({variable: value}, cwd=near)
    name = variable.removeprefix("OUTLAST_").lower()
    assert (caught.value.name, str(caught.value.value), caught.value.source) == (name, value, variable)
    assert str(caught.value).startswith(f"The setting {name} is ")
    assert str(caught.value).endswith(f": {reason}. It stands in {variable}.")


@pytest.mark.parametrize(
    ("line", "name", "reason"),
    [
        ("concurrency = 2.5", "concurrency", "whole number"),
        ("concurrency = inf", "concurrency", "whole number"),
        ("concurrency = true", "concurrency", "whole number"),
        ('concurrency = "4"', "concurrency", "whole number"),
        ("lease_s = nan", "lease_s", "a number"),
        ("lease_s = []", "lease_s", "a number"),
        ('world = "sqlite:theirs.db"', "world", "a directory's file may not set it"),
        ('anthropic_base_url = "http://x"', "anthropic_base_url", "a directory's file may not set it"),
        ("log_level = 3", "log_level", "must be a text"),
        ("worlds = 1", "worlds", "there is no such setting; known are anthropic_base_url, concurrency,"),
        ("[outlast]\nlease_s = 1", "outlast", "there is no such setting"),
        ("not toml", "file", "cannot be read"),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_file(
    near: Path, line: str, name: str, reason: str
) -> None:
    (near / "outlast.toml").write_text(line)
    with pytest.raises(BadSettings, match=reason) as caught:
        read_settings({}, cwd=near)
    assert (caught.value.name, caught.value.source) == (name, str(near / "outlast.toml"))


def test_a_file_that_cannot_be_read_is_named(near: Path) -> None:
    (near / "outlast.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSettings, match="cannot be read"):
        read_settings({}, cwd=near)
    (near / "outlast.toml").unlink()
    (near / "outlast.toml").mkdir()
    with pytest.raises(BadSettings, match="cannot be read"):
        read_settings({}, cwd=near)
