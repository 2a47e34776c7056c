"""Trust store in the cache: its content is checked before each use."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.runtime.java.trust_store import write_trust_store

_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def _certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text(_CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def test_changed_trust_store_is_replaced(tmp_path: Path) -> None:
    file = write_trust_store(tmp_path / "cache" / "trusted.jks")
    expected = file.read_bytes()
    for changed in (b"", expected[:-1], expected + b"x", b"another user's certificates"):
        file.write_bytes(changed)
        assert write_trust_store(tmp_path / "cache" / "trusted.jks") == file
        assert file.read_bytes() == expected
    assert list(file.parent.iterdir()) == [file]


def test_unchanged_trust_store_is_not_written(tmp_path: Path) -> None:
    file = write_trust_store(tmp_path / "cache" / "trusted.jks")
    written = file.stat()
    write_trust_store(tmp_path / "cache" / "trusted.jks")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_link_in_place_of_the_trust_store_is_replaced(tmp_path: Path) -> None:
    file = write_trust_store(tmp_path / "cache" / "trusted.jks")
    file.unlink()
    (tmp_path / "other").write_text("other")
    file.symlink_to(tmp_path / "other")
    write_trust_store(tmp_path / "cache" / "trusted.jks")
    assert not file.is_symlink()
    assert (tmp_path / "other").read_text() == "other"


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match=r"trusted-[0-9a-f]{16}\.jks: cannot write the trust store: "):
        write_trust_store(tmp_path / "cache" / "trusted.jks")
