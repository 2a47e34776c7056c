"""Software bill of materials (SBOM) of headrace: its Python requirements, with those of its extras, and the jars in its locks.

::

    tox run -e sbom    # python .ci/sbom.py sbom, in an environment with headrace and the extras of a production machine
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

LOCK = "jars.lock"
VERSION = "1.6"


def read_environment() -> dict[str, Any]:
    """Return the SBOM of everything that is installed here."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--sv", VERSION, "--output-reproducible"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bom: dict[str, Any] = json.loads(done.stdout)
    return bom


def read_jars() -> list[tuple[str, str]]:
    """Return coordinate and SHA-256 of each jar that the plugins may download."""
    packages = sorted({point.module.partition(".")[0] for point in entry_points(group="headrace")})
    locks = [files(package) / LOCK for package in packages]
    lines = [line for lock in locks if lock.is_file() for line in lock.read_text(encoding="utf-8").splitlines()]
    jars = [line.split() for line in lines if line and not line.startswith(("#", "["))]
    return sorted({(coordinate, digest) for coordinate, digest, _ in jars})


def describe_jar(coordinate: str, digest: str) -> dict[str, Any]:
    """Return the component of a jar. A coordinate may end with a type and a classifier."""
    group, name, version = coordinate.split(":")[:3]
    purl = f"pkg:maven/{group}/{name}@{version}"
    hashes = [{"alg": "SHA-256", "content": digest}]
    # A pipeline downloads the jars of its own plugins only.
    return {
        "type": "library",
        "bom-ref": f"{purl}#{digest[:12]}",
        "group": group,
        "name": name,
        "version": version,
        "scope": "optional",
        "purl": purl,
        "hashes": hashes,
    }


def complete(bom: dict[str, Any], jars: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the SBOM of headrace: without what is installed for other reasons, and with the jars."""
    needs = {item["ref"]: item.get("dependsOn", []) for item in bom["dependencies"]}
    (root,) = [one for one in bom["components"] if one["name"] == "headrace"]
    reached, pending = set(), [root["bom-ref"]]
    while pending:
        if (ref := pending.pop()) not in reached:
            reached.add(ref)
            pending += needs.get(ref, [])
    # The only origin of a local build is a folder of this machine.
    main = {**{key: value for key, value in root.items() if key != "externalReferences"}, "type": "application"}
    main["purl"] = f"pkg:pypi/headrace@{root['version']}"
    found = [describe_jar(*jar) for jar in jars]
    components = [one for one in bom["components"] if one["bom-ref"] in reached - {root["bom-ref"]}]
    dependencies = [item for item in bom["dependencies"] if item["ref"] in reached - {root["bom-ref"]}]
    refs = [jar["bom-ref"] for jar in found]
    dependencies.append({"ref": root["bom-ref"], "dependsOn": [*needs.get(root["bom-ref"], []), *refs]})
    dependencies += [{"ref": ref} for ref in refs]
    return {
        **bom,
        "metadata": {**bom["metadata"], "component": main},
        "components": [*components, *found],
        "dependencies": dependencies,
    }


def validate(text: str) -> None:
    """Exit if the text is not valid CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    if error := JsonStrictValidator(SchemaVersion.from_version(VERSION)).validate_str(text):
        raise SystemExit(f"The SBOM is not valid CycloneDX {VERSION}: {error}")


def main(folder: Path) -> None:
    """Write ``headrace-VERSION.cdx.json``."""
    bom = complete(read_environment(), read_jars())
    text = json.dumps(bom, indent=2, ensure_ascii=False) + "\n"
    validate(text)
    folder.mkdir(exist_ok=True)
    file = folder / f"headrace-{bom['metadata']['component']['version']}.cdx.json"
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(bom['components'])} components")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
