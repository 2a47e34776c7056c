"""Broken and hostile distributions, which affect only the pipelines that use them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import deliver, finish, start
from tests.support.site import Site

from headrace import __version__

SDK = "from headrace.sdk import Config, Dialect, Format, Sink, Transform, hookimpl\n"
TRANSFORM = """
class {name}(Transform):
    name = "{plugin}"
    api_version = 1
    {body}
    def apply(self, changes):
        return changes

@hookimpl
def headrace_transforms():
    return {{"{plugin}": {name}}}
"""


def transform(plugin: str, body: str) -> str:
    return SDK + TRANSFORM.format(name=plugin.title(), plugin=plugin, body=body)


def hook(kind: str, returned: str, before: str = "") -> str:
    return f"{SDK}{before}\n@hookimpl\ndef headrace_{kind}():\n    return {returned}\n"


def dialect(plugin: str, body: str) -> str:
    head = f"class Shape(Dialect):\n    name = '{plugin}'\n    api_version = 1\n    priority = 0\n"
    changes = "    def changes(self, events, frame, key):\n        raise SystemExit('a dialect that nobody named')\n"
    return hook("dialects", f"{{'{plugin}': Shape}}", head + body + changes)


TAKES_ALL = "    @classmethod\n    def matches(cls, schema):\n        return True\n"
#: Module → its code, and the reported state of the plugin with the same name.
BROKEN_MODULES: dict[str, tuple[str, str]] = {
    "quits": ("raise SystemExit('no license')", "not loaded: SystemExit: no license"),
    "halts": ("class Halt(KeyboardInterrupt): pass\nraise Halt('enough')", "not loaded: Halt: enough"),
    "ends": ("raise GeneratorExit", "not loaded: GeneratorExit"),
    "exits": (hook("sinks", "exit(3)", "from sys import exit"), "not loaded: SystemExit: 3"),
    "mute": ("class Mute(Exception):\n    def __str__(self): raise SystemExit\nraise Mute", "not loaded: Mute"),
    "lacks": ("import rudder", "not loaded: ModuleNotFoundError: No module named 'rudder'"),
    "lists": (hook("sinks", "['a']"), "not loaded: headrace_sinks returns list instead of a mapping of names"),
    "counts": (
        hook("transforms", "{7: Transform}"),
        "not loaded: headrace_transforms returns a name that is not a string: 7 (int)",
    ),
    "hookless": ("def headrace_sinks():\n    return {}\n", "not loaded: it has no hook: decorate a function"),
    "returnless": (hook("sinks", "None"), "not loaded: headrace_sinks returns NoneType instead of a mapping of names"),
    "nameless": (transform("nameless", "name = 7"), "of headrace-nameless 1.0 has no name"),
    "loose": (transform("loose", "Config = dict"), "has a Config that is not a Config: <class 'dict'>"),
    "inexpressible": (
        transform(
            "inexpressible",
            "class Config(Config):\n        '''Options.'''\n"
            "        __annotations__ = {'at': int}\n        from pydantic import Field\n"
            "        at = Field(1, json_schema_extra={'x': object()})",
        ),
        "has options that JSON Schema cannot express: ",
    ),
    "jarred": (transform("jarred", "jars = {'3.5': ('lost',), '4.0': ('lost',)}"), "not a Maven coordinate: 'lost'"),
    "texted": (transform("texted", "jars = {'3.5': 'a:b:1'}"), "has a string for the jars of Spark 3.5"),
    "odd": (transform("odd", "jars = 7"), "cannot be inspected: AttributeError: 'int' object has no attribute 'items'"),
    "half": (
        hook("sinks", "{'half': Half}", "class Half(Sink):\n    name, api_version = 'half', 1\n"),
        "is abstract: it does not implement read_back, write",
    ),
    "starts": (
        transform("starts", "def __init__(self, config=None, **options):\n        raise SystemExit('no engine')\n"),
        "cannot be built: SystemExit: no engine",
    ),
    "run": (
        hook("commands", "{'run': command}", "import click\n@click.command()\ndef command(): print('stolen')\n"),
        "the command 'run' of headrace-run 1.0 has the name of one of headrace's plugins",
    ),
    "shy": (
        hook(
            "commands",
            "{'shy': Shy('shy')}",
            "import click\nclass Shy(click.Command):\n    def get_short_help_str(self, limit=45): raise SystemExit\n",
        ),
        "",
    ),
    "late": (
        hook("commands", "{'late': 'no_such_module:command|Clears \\x1b[2J.'}"),
        "the command 'late' of headrace-late 1.0 cannot be imported: ModuleNotFoundError",
    ),
    "plain": (hook("commands", "{'plain': print}"), "the command 'plain' of headrace-plain 1.0 is not a click command"),
    "greedy": (dialect("greedy", TAKES_ALL), ""),
    "unsure": (dialect("unsure", TAKES_ALL.replace("return True", "raise SystemExit('which?')")), ""),
    "unborn": (
        dialect("unborn", TAKES_ALL + "    def __init__(self, *_, **__):\n        raise SystemExit('not yet')\n"),
        "cannot be built: SystemExit: not yet",
    ),
    "debezium": (dialect("debezium", TAKES_ALL), "of headrace-debezium 1.0 has the name of one of headrace's plugins"),
    "avro": (
        hook("formats", "{'avro': 'avro:Nowhere'}"),
        "the format 'avro' of headrace-avro 1.0 has the name of one of headrace's plugins",
    ),
    "loud": (
        hook(
            "formats",
            "{'loud': Loud}",
            "class Loud(Format):\n    name, api_version = 'loud', 1\n    class Config(Config): passthrough = (7,)\n",
        ),
        "has a passthrough that is not a tuple of strings: (7,)",
    ),
    "env": (
        hook("secret_providers", "{'env': lambda name: 'stolen'}"),
        "the secret 'env' of headrace-env 1.0 has the name of one of headrace's plugins",
    ),
    "vault": (hook("secret_providers", "{'vault': 'vault_client:read'}"), "cannot be imported: SystemExit: no vault"),
    "number": (hook("secret_providers", "{'number': 7}"), "of headrace-number 1.0 is not a function: 7"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("isolation") / "site")
    for module, (code, _) in BROKEN_MODULES.items():
        made.install(module, code)
    made.install("bare", "raise SystemExit", metadata="")
    made.install("vague", "", points="vague = :")
    (made.folder / "vault_client.py").write_text("raise SystemExit('no vault')\n")
    return made


@pytest.fixture(autouse=True)
def path(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install all broken distributions for the processes that a test starts."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")]))


def list_third_party(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the JSON of `headrace plugins` by distribution; headrace's own as a list of states."""
    out, _ = finish(start(folder, "plugins", "--json"))
    items = json.loads(out)
    own = {(item["state"], item["reason"]) for item in items if item["distribution"].startswith("headrace 0")}
    assert own == {("ok", None)}
    third_party = [item for item in items if not item["distribution"].startswith("headrace 0")]
    found = {item["distribution"]: item for item in third_party}
    assert len(found) == len(third_party)
    return found


def test_each_broken_distribution_is_listed_with_the_reason(tmp_path: Path) -> None:
    found = list_third_party(tmp_path)
    for module, (_, reason) in BROKEN_MODULES.items():
        item = found.pop(f"headrace-{module} 1.0")
        assert item["name"] == module
        if reason:
            assert item["state"] == "broken"
            assert reason in item["reason"]
        else:
            assert (item["state"], item["reason"]) == ("ok", None)
    assert found.pop("headrace-vague 1.0")["reason"].startswith("not loaded: ")
    ((_, bare),) = found.items()
    assert (bare["name"], bare["reason"]) == ("bare", "not loaded: SystemExit")


def test_help_schema_and_jars_ignore_broken_distributions(tmp_path: Path) -> None:
    out, _ = finish(start(tmp_path, "--help"))
    commands = [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()]
    assert commands.count("run") == 1
    assert commands[-8:] == ["demo", "import", "late", "live", "plain", "scan", "shy", "verify"]
    assert "\x1b" not in out
    assert "stolen" not in out
    out, _ = finish(start(tmp_path, "schema"))
    definitions = json.loads(out)["$defs"]
    assert {"source.files", "format.avro", "dialect.debezium", "sink.iceberg", "dialect.greedy"} <= definitions.keys()
    assert not {"transform.loose", "transform.inexpressible", "sink.half", "format.loud"} & definitions.keys()
    out, _ = finish(start(tmp_path, "jars"))
    assert "iceberg-spark-runtime" in out
    assert "lost" not in out


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.slow
def test_pipeline_that_uses_no_broken_plugin_runs(sample: Path) -> None:
    deliver(sample.parent, 0)
    sample.write_text(sample.read_text().replace("iceberg: {warehouse: lake/, mode: upsert}", "files: {path: lake/}"))
    out, _ = finish(start(sample.parent, "run", "artists.yaml", "--available-now"))
    assert out.endswith("  moma.artists → files: 300 rows in, 300 applied, – late, 0 dead letters\n")
    files = (sample.parent / "lake/moma/artists").rglob("part-*.json")
    lines = [line for file in files for line in file.read_text().splitlines()]
    rows = {row["artist_id"]: row for row in map(json.loads, lines)}
    assert len(rows) == 300
    assert (rows[1]["country"], rows[1]["birth_year"], rows[1]["__op"]) == ("American", 1930, "r")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("unwrap: {", "starts: {}\n  - unwrap: {", "artists.yaml:7 transforms.0.starts\n"),
        ("unwrap: {", "loose: {}\n  - unwrap: {", "of headrace-loose 1.0 has a Config that is not a Config"),
        ("unwrap: {", "jarred: {}\n  - unwrap: {", "of headrace-jarred 1.0 has a jar that is not a Maven coordinate"),
        ("unwrap: {", "lacks: {}\n  - unwrap: {", "headrace-lacks 1.0 (ModuleNotFoundError: No module named 'rudder')"),
    ],
)
def test_broken_plugin_in_a_file_is_reported_with_its_line(sample: Path, old: str, new: str, error: str) -> None:
    sample.write_text(sample.read_text().replace(old, new))
    _, err = finish(start(sample.parent, "check", "artists.yaml"), code=3)
    assert "artists.yaml:7 transforms.0" in err
    assert error in err


def test_reference_to_broken_secret_provider_is_reported(sample: Path) -> None:
    sample.write_text(sample.read_text().replace("env:SALT", "vault:salt"))
    _, err = finish(start(sample.parent, "check", "artists.yaml"), code=2)
    assert "${vault:salt}: the secret 'vault' of headrace-vault 1.0 cannot be imported: SystemExit: no vault" in err


def test_disabled_plugin_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins are disabled by their name, or by the name of their distribution in any spelling."""
    monkeypatch.setenv("HEADRACE_DISABLE_PLUGINS", "greedy, Headrace_Quits ,nobody")
    found = list_third_party(tmp_path)
    greedy, quits = found["headrace-greedy 1.0"], found["headrace-quits 1.0"]
    assert (greedy["kind"], greedy["state"], quits["kind"], quits["state"]) == ("dialect", "off", None, "off")
    assert quits["reason"] == "disabled by HEADRACE_DISABLE_PLUGINS"
    assert (
        finish(start(tmp_path, "plugins"))[1]
        == "HEADRACE_DISABLE_PLUGINS names nobody: no plugin or distribution has this name\n"
    )


def test_disabled_plugin_in_a_file_is_reported(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DISABLE_PLUGINS", "unwrap")
    _, err = finish(start(sample.parent, "check", "artists.yaml"), code=3)
    assert f"the transform 'unwrap' of headrace {__version__} is disabled" in err
    assert "remove it from HEADRACE_DISABLE_PLUGINS" in err
