from pathlib import Path

import pytest

from headrace import ConfigError, Pipeline


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "salt").write_text("pepper and salt of 24 b.\n")


def pipeline(salt: str) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": "people",
            "source": {"files": {"path": "in", "format": "json"}},
            "transforms": [{"mask": {"columns": {"name": {"sha256": {"salt": salt}}}}}],
            "sink": "console",
            "checkpoint": "checkpoint",
        }
    )


def test_a_reference_is_resolved_and_redacted() -> None:
    made = pipeline("${example:salt}")
    assert made.redact("the salt is pepper and salt of 24 b.") == "the salt is ******"
    assert "pepper" not in repr(made)


@pytest.mark.parametrize("name", ["none", "../salt", ".salt"])
def test_a_missing_secret_is_reported_with_its_line(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no secret '{name}' in|'{name}' is not a valid secret name"):
        pipeline(f"${{example:{name}}}")
