"""The distribution holds what the folders hold, and the core stays a core."""

from __future__ import annotations

import io
import re
import tarfile
import tokenize
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from tests.support import dist
from tests.support.dist import ROOT

import headrace

#: Scripts that build the data of the demos; not part of a distribution.
DEVELOPERS = ROOT / "plugins/demo/tools"
STACK = ROOT / "plugins/stack"
DEMO_DATA = ROOT / "plugins/demo-data"
CORE = ROOT / "core/headrace"
#: Connectors, formats and table formats. JSON and Parquet are left out: the core writes its own notes in them.
NAMES = re.compile(
    r"kafka|kinesis|debezium|dms|postgres|mysql|mongo|oracle|sqlserver|jdbc|outbox|avro|orc\b|protobuf|csv|registry_url|"
    r"hudi|hoodie|iceberg|\bdelta\b|paimon|glue|athena|s3a",
    re.IGNORECASE,
)
#: Lines of code that the author of a plugin may have to read: no blank line, no comment, no docstring.
LIMIT = 1050


@pytest.fixture(scope="module")
def setup_cfg() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def packages(*, stack: bool = False) -> dict[str, Path]:
    """Map each package of headrace's wheel to its folder; ``stack`` adds those of the test servers' distribution."""
    others = {DEMO_DATA} if stack else {DEMO_DATA, STACK}
    families = (path for path in (ROOT / "plugins").iterdir() if path.is_dir() and path not in others)
    roots = [ROOT / "core", *families]
    return {
        ".".join(init.parent.relative_to(root).parts): init.parent
        for root in roots
        for init in root.rglob("__init__.py")
        if not init.is_relative_to(DEVELOPERS)
    }


def code_lines(path: Path) -> int:
    """Lines with code on them; a docstring is a string that stands alone."""
    counted: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    layout = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NEWLINE:
            if {part.type for part in statement} != {tokenize.STRING}:
                counted.update(n for part in statement for n in range(part.start[0], part.end[0] + 1))
            statement = []
        elif token.type not in layout:
            statement.append(token)
    return len(counted)


def core_files() -> list[Path]:
    """Without what authors of plugins get: tests, and the beginnings of plugins."""
    return [path for path in CORE.rglob("*.py") if not {"testing", "templates"} & set(path.relative_to(CORE).parts)]


def test_every_source_root_is_listed() -> None:
    """In pyproject.toml: a family that is not listed would be missing from the wheel."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    roots = {ROOT / root for root in config["tool"]["setuptools"]["packages"]["find"]["where"]}
    tops = {folder.parent for name, folder in packages().items() if "." not in name}
    assert roots == tops


def test_every_top_package_is_typed_and_measured(setup_cfg: ConfigParser) -> None:
    tops = {name: folder for name, folder in packages(stack=True).items() if "." not in name}
    assert all((folder / "py.typed").is_file() for folder in tops.values())
    assert set(setup_cfg["coverage:run"]["source_pkgs"].split()) == tops.keys()
    assert set(setup_cfg["importlinter"]["root_packages"].split()) == tops.keys()
    mypy_path = setup_cfg["mypy"]["mypy_path"].replace("$MYPY_CONFIG_FILE_DIR", str(ROOT)).split(":")
    assert {str(folder.parent) for folder in tops.values()} <= set(mypy_path)


@pytest.mark.dist
def test_the_wheel_holds_the_packages_and_their_data(distributions: dist.Built) -> None:
    """Built from the sdist, which therefore lacks nothing."""
    wheel = distributions.wheel
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = set()
    for name, folder in packages().items():
        place = name.replace(".", "/")
        expected |= {f"{place}/{path.name}" for path in folder.iterdir() if path.suffix != ".pyc" and path.is_file()}
    templates = CORE / "scaffold/templates"
    expected |= {f"headrace/scaffold/templates/{path.name}" for path in templates.iterdir() if path.is_file()}
    assert files == expected
    assert not any(name.endswith((".avro", ".xz")) for name in files)
    assert {f"{name}/py.typed" for name in packages() if "." not in name} <= files


@pytest.mark.dist
def test_the_demo_data_is_a_wheel_of_its_own(distributions: dist.Built) -> None:
    with zipfile.ZipFile(distributions.demo_data) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = DEMO_DATA / "headrace_demo_data"
    assert files == {
        path.relative_to(DEMO_DATA).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert any(name.endswith(".avro") for name in files)
    assert "headrace_demo_data/pagila/pagila.sql.xz" in files


@pytest.mark.dist
def test_metadata_of_a_release(distributions: dist.Built) -> None:
    sdist, wheel = distributions.sdist, distributions.wheel
    version = headrace.__version__
    assert (sdist.name, wheel.name) == (f"headrace-{version}.tar.gz", f"headrace-{version}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        about = archive.read(f"headrace-{version}.dist-info/METADATA").decode()
        entry_points = ConfigParser()
        entry_points.read_string(archive.read(f"headrace-{version}.dist-info/entry_points.txt").decode())
        assert f"headrace-{version}.dist-info/licenses/LICENSE" in archive.namelist()
    for extra in ("spark", "spark4", "aws", "demo", "stack", "test", "all"):
        assert f"Provides-Extra: {extra}\n" in about
    assert dict(entry_points["console_scripts"]) == {"headrace": "headrace.cli.main:main"}
    assert set(entry_points["headrace"].values()) <= set(packages())
    with tarfile.open(sdist) as archive_of_sources:
        names = {name.partition("/")[2] for name in archive_of_sources.getnames()}
    assert {"pyproject.toml", "setup.cfg", "LICENSE"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_core_names_no_connector_and_no_format() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in core_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not named, "\n" + "\n".join(named)


def test_what_an_author_reads_is_little() -> None:
    # An author does not read the list of names.
    read = [path for path in (CORE / "sdk").glob("*.py") if path.stem != "__init__"]
    lines = {str(path.relative_to(CORE)): code_lines(path) for path in read}
    assert sum(lines.values()) < LIMIT, sorted(lines.items(), key=lambda item: -item[1])


def test_built_in_plugins_may_import_the_sdk_alone(setup_cfg: ConfigParser) -> None:
    """The contract's list of what they may not: every module of the core but one."""
    rooms = {path.stem for path in CORE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    forbidden = setup_cfg["importlinter:contract:sdk"]["forbidden_modules"].split()
    assert set(forbidden) == {f"headrace.{room}" for room in rooms - {"__init__", "__main__", "sdk"}}


def test_the_sdk_has_few_names_and_each_can_be_imported() -> None:
    from headrace import sdk

    assert 40 < len(dir(sdk)) <= 60
    assert all(getattr(sdk, name) is not None for name in dir(sdk))


def test_lines_of_code() -> None:
    """The counter itself: this file's own first lines are a docstring and imports."""
    assert 0 < code_lines(Path(__file__)) < len(Path(__file__).read_text(encoding="utf-8").splitlines())
    assert code_lines(ROOT / "core/headrace/engine/__init__.py") == 0


def test_distributions_have_one_version(setup_cfg: ConfigParser) -> None:
    """The extras of headrace require the same version of the distributions that are built beside it."""
    from headrace import __version__

    extras = "\n".join(setup_cfg["options.extras_require"].values())
    for name, folder in (("headrace-stack", "stack"), ("headrace-demo-data", "demo-data")):
        parser = ConfigParser(interpolation=None)
        parser.read(ROOT / "plugins" / folder / "setup.cfg", encoding="utf-8")
        assert (parser["metadata"]["name"], parser["metadata"]["version"]) == (name, __version__)
        assert f"{name}=={__version__}" in extras
