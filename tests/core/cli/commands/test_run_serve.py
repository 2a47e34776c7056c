"""Option `--serve` of `headrace run`, without a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.conftest import Headrace

FILE = """\
name: orders
source: {files: {path: bronze/, format: json}}
sink: {files: {path: lake/}}
checkpoint: checkpoint/
"""


@pytest.mark.parametrize("block", ["", "serve:\n", "serve: {address: '127.0.0.1:0'}\n"])
@pytest.mark.parametrize(
    ("address", "error"),
    [("8080", "'8080' is not an address"), ("0.0.0.0:8080", "other machines can reach the `address` 0.0.0.0:8080")],
)
def test_address_of_the_option_is_checked(
    headrace: Headrace, tmp_path: Path, block: str, address: str, error: str
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE + block)
    result = headrace("run", str(file), "--serve", address)
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr


def test_other_commands_check_the_block(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE + "serve: {adress: '127.0.0.1:8080'}\n")
    result = headrace("check", str(file))
    assert result.exit_code == 2
    assert "unknown key 'adress'\nwhere: " in result.stderr
    assert "orders.yaml:5 serve.adress\n  fix: did you mean 'address'?" in result.stderr
