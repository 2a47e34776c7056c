"""Contents of the distributions, and limits of the core."""

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
from headrace.registry.plugin_registry import registry
from headrace.registry.registration import KINDS
from headrace.sdk.plugin import Plugin
from headrace.spark.sessions import _CONF

#: Scripts that build the demo data. They are not part of a distribution.
DEMO_TOOLS = ROOT / "plugins/demo/tools"
STACK = ROOT / "plugins/stack"
DEMO_DATA = ROOT / "plugins/demo-data"
CORE = ROOT / "core/headrace"
#: Functions of Spark with names of formats.
FUNCTIONS_OF_SPARK = re.compile(r"\b(from|to|schema_of)_(avro|csv|protobuf)\b")
#: Connectors, formats and table formats. JSON and Parquet are allowed, because the core stores its own files in them.
NAMES = re.compile(
    r"kafka|kinesis|debezium|dms|postgres|mysql|mongo|oracle|sqlserver|jdbc|outbox|avro|orc\b|protobuf|csv|registry_url|"
    r"hudi|hoodie|iceberg|\bdelta\b|paimon|glue|athena|s3a",
    re.IGNORECASE,
)
#: Maximum number of SDK code lines for the author of a plugin to read, without blank lines, comments and docstrings.
LIMIT = 1600


@pytest.fixture(scope="module")
def setup_cfg() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def find_packages(*, stack: bool = False) -> dict[str, Path]:
    """Map each package of headrace's wheel to its folder; ``stack`` adds those of the test servers' distribution."""
    others = {DEMO_DATA} if stack else {DEMO_DATA, STACK}
    families = (path for path in (ROOT / "plugins").iterdir() if path.is_dir() and path not in others)
    roots = [ROOT / "core", *families]
    return {
        ".".join(init.parent.relative_to(root).parts): init.parent
        for root in roots
        for init in root.rglob("__init__.py")
        if not init.is_relative_to(DEMO_TOOLS)
    }


def count_code_lines(path: Path) -> int:
    """Count lines with code. A statement that is only a string is a docstring."""
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


def list_core_files() -> list[Path]:
    """Return the modules of the core, except the kits and templates for authors of plugins."""
    return [path for path in CORE.rglob("*.py") if not {"testing", "templates"} & set(path.relative_to(CORE).parts)]


def test_every_source_root_is_listed() -> None:
    """The wheel would lack a family of plugins that pyproject.toml does not list."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    roots = {ROOT / root for root in config["tool"]["setuptools"]["packages"]["find"]["where"]}
    top_packages = {folder.parent for name, folder in find_packages().items() if "." not in name}
    assert roots == top_packages


def test_every_top_package_is_typed_and_measured(setup_cfg: ConfigParser) -> None:
    top_packages = {name: folder for name, folder in find_packages(stack=True).items() if "." not in name}
    assert all((folder / "py.typed").is_file() for folder in top_packages.values())
    assert set(setup_cfg["coverage:run"]["source_pkgs"].split()) == top_packages.keys()
    assert set(setup_cfg["importlinter"]["root_packages"].split()) == top_packages.keys()
    mypy_path = setup_cfg["mypy"]["mypy_path"].replace("$MYPY_CONFIG_FILE_DIR", str(ROOT)).split(":")
    assert {str(folder.parent) for folder in top_packages.values()} <= set(mypy_path)


@pytest.mark.dist
def test_wheel_contains_packages_and_their_data(distributions: dist.Built) -> None:
    """The wheel is built from the sdist, so this also proves that the sdist is complete."""
    wheel = distributions.wheel
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = set()
    for name, folder in find_packages().items():
        path_in_wheel = name.replace(".", "/")
        expected |= {
            f"{path_in_wheel}/{path.name}" for path in folder.iterdir() if path.suffix != ".pyc" and path.is_file()
        }
    templates = CORE / "scaffold/templates"
    expected |= {f"headrace/scaffold/templates/{path.name}" for path in templates.iterdir() if path.is_file()}
    assert files == expected
    assert not any(name.endswith((".avro", ".xz")) for name in files)
    assert {f"{name}/py.typed" for name in find_packages() if "." not in name} <= files


@pytest.mark.dist
def test_demo_data_has_its_own_wheel(distributions: dist.Built) -> None:
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
        metadata = archive.read(f"headrace-{version}.dist-info/METADATA").decode()
        entry_points = ConfigParser()
        entry_points.read_string(archive.read(f"headrace-{version}.dist-info/entry_points.txt").decode())
        assert f"headrace-{version}.dist-info/licenses/LICENSE" in archive.namelist()
    for extra in ("spark", "spark4", "aws", "demo", "stack", "test", "all"):
        assert f"Provides-Extra: {extra}\n" in metadata
    assert dict(entry_points["console_scripts"]) == {"headrace": "headrace.cli.main:main"}
    assert set(entry_points["headrace"].values()) <= set(find_packages())
    with tarfile.open(sdist) as archive_of_sources:
        names = {name.partition("/")[2] for name in archive_of_sources.getnames()}
    assert {"pyproject.toml", "setup.cfg", "LICENSE"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_core_names_no_connector_or_format() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in list_core_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NAMES.search(FUNCTIONS_OF_SPARK.sub("", line))
    ]
    assert not named, "\n" + "\n".join(named)


def test_sdk_has_few_lines_of_code() -> None:
    # `__init__.py` is only a list of names.
    read = [path for path in (CORE / "sdk").glob("*.py") if path.stem != "__init__"]
    lines = {str(path.relative_to(CORE)): count_code_lines(path) for path in read}
    assert sum(lines.values()) < LIMIT, sorted(lines.items(), key=lambda item: -item[1])


def test_import_contract_allows_only_the_sdk_to_plugins(setup_cfg: ConfigParser) -> None:
    """The contract forbids every module of the core except ``headrace.sdk``."""
    modules = {path.stem for path in CORE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    forbidden = setup_cfg["importlinter:contract:sdk"]["forbidden_modules"].split()
    assert set(forbidden) == {f"headrace.{module}" for module in modules - {"__init__", "__main__", "sdk"}}


def test_sdk_has_few_names_and_each_can_be_imported() -> None:
    from headrace import sdk

    assert 40 < len(dir(sdk)) <= 60
    assert all(getattr(sdk, name) is not None for name in dir(sdk))


def test_code_lines_exclude_docstrings_and_comments() -> None:
    assert 0 < count_code_lines(Path(__file__)) < len(Path(__file__).read_text(encoding="utf-8").splitlines())
    assert count_code_lines(ROOT / "core/headrace/engine/__init__.py") == 0


def test_built_in_plugins_do_not_repeat_settings_of_the_core() -> None:
    found = [plugin for kind in KINDS for _, plugin in registry().all(kind) if isinstance(plugin, type)]
    plugins = [plugin for plugin in found if issubclass(plugin, Plugin)]
    repeated = {plugin: keys for plugin in plugins if (keys := set(plugin.sql_conf) & set(_CONF))}
    assert not repeated


def test_distributions_have_one_version(setup_cfg: ConfigParser) -> None:
    """The extras of headrace require the same version of the other two distributions."""
    from headrace import __version__

    extras = "\n".join(setup_cfg["options.extras_require"].values())
    for name, folder in (("headrace-stack", "stack"), ("headrace-demo-data", "demo-data")):
        parser = ConfigParser(interpolation=None)
        parser.read(ROOT / "plugins" / folder / "setup.cfg", encoding="utf-8")
        assert (parser["metadata"]["name"], parser["metadata"]["version"]) == (name, __version__)
        assert f"{name}=={__version__}" in extras
