"""The distribution holds what the folders hold."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def setup_cfg() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def package_dirs(setup_cfg: ConfigParser) -> dict[str, Path]:
    lines = setup_cfg["options"]["package_dir"].strip().splitlines()
    return {name.strip(): ROOT / folder.strip() for name, folder in (line.split("=") for line in lines)}


def test_every_package_is_listed(setup_cfg: ConfigParser) -> None:
    on_disk = {
        ".".join([top, *init.parent.relative_to(folder).parts])
        for top, folder in package_dirs(setup_cfg).items()
        for init in folder.rglob("__init__.py")
    }
    assert set(setup_cfg["options"]["packages"].split()) == on_disk


def test_every_top_package_is_typed_and_measured(setup_cfg: ConfigParser) -> None:
    tops = package_dirs(setup_cfg)
    assert all((folder / "py.typed").is_file() for folder in tops.values())
    assert set(setup_cfg["coverage:run"]["source_pkgs"].split()) == tops.keys()
    assert set(setup_cfg["importlinter"]["root_packages"].split()) == tops.keys()
    mypy_path = setup_cfg["mypy"]["mypy_path"].replace("$MYPY_CONFIG_FILE_DIR", str(ROOT)).split(":")
    assert set(mypy_path) == {str(folder.parent) for folder in tops.values()}
