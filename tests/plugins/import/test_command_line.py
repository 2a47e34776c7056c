"""Command lines of Hudi Streamer as a shell reads them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError
from headrace_import.hudi.shell_words import parse_script
from headrace_import.import_report import Kind

JOB = (
    "spark-submit --class HoodieStreamer x.jar --source-class org.apache.hudi.utilities.sources.JsonKafkaSource "
    "--target-base-path s3://lake/silver/orders --target-table orders --hoodie-conf bootstrap.servers=b:9092 "
    "--hoodie-conf hoodie.streamer.source.kafka.topic=orders --hoodie-conf hoodie.datasource.write.recordkey.field=id "
)
JAAS = 'x.ScramLoginModule required username="app" password="{}";'


def run(importer: Any, folder: Path, text: str) -> Any:
    (folder / "run.sh").write_text(text, encoding="utf-8")
    return importer.run(folder / "run.sh")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a#b # c 'd", ["a#b"]),
        ('\'$a \\\' "\\$b \\" \\c"', ["$a \\", '$b " \\c']),
        ("\\$a b\\ c \"d\"'e'f ''", ["$a", "b c", "def", ""]),
        ("$'a\\'b\\n' $\"c$D\"", ["a'b\n", "c${env:D}"]),
        ("a$B/${C}_$1 $ 5$", ["a${env:B}/${env:C}_${env:ARGUMENT_1}", "$", "5$"]),
        ('${A:-x y}/z ${B-${C:-\\}}} "${C:?no}"', ["${env:A}/z", "${env:B}", "${env:C}"]),
        ("${file:/etc/x:y} '${A}'", ["${file:/etc/x:y}", "${A}"]),
        ("a \\\n b\\\r\n c # d \\\n --e", ["a", "b", "c", "--e"]),
        ("a 2>&1 >x <<< y b &> z", ["a", "b"]),
        ("a s3://<bucket>/b <table>", ["a", "s3://<bucket>/b", "<table>"]),
        ("a <<'b c'>d e # f\n'g\nb c\n --h", ["a", "e", "--h"]),
        ("a $((1<<2)) e", ["a", "${env:}", "e"]),
    ],
)
def test_words_are_those_of_a_shell(text: str, words: list[str]) -> None:
    assert [[str(word) for word in command] for command in parse_script(text).commands] == [words]


def test_commands_end_at_operators_and_brackets() -> None:
    found = parse_script("(a b; c) && d | e 'f;g' & out=$(h \"$(i)\") `j`\nk\n -l;").commands
    assert [" ".join(map(str, command)) for command in found if "${env:}" not in map(str, command)][:3] == [
        "j",
        "i",
        "a b",
    ]
    assert "k -l" in [" ".join(map(str, command)) for command in found]


@pytest.mark.parametrize("text", ["'a", '"a', "$'a", "${a", "$(a", "`a", "a <<b\nc"])
def test_quotes_and_brackets_have_an_end(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (closing|line)"):
        parse_script(text)


def test_long_words_take_linear_time() -> None:
    start = time.process_time()
    parse_script(f"{'a' * 300_000} '{'b' * 300_000}' \"{'c' * 300_000}\"")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("command", "file", "body"),
    [
        ("cat <<EOF > x.json", "x.json", "${env:A}\"\\b'$C\n\tEOF\n"),
        ("cat > x.json <<'EOF'", "x.json", "$A\"\\b'\\$C\n\tEOF\n"),
        ("cat <<- EOF >> $D/x.json 2>&1", "${env:D}/x.json", "${env:A}\"\\b'$C\n"),
        ('cat <<"EOF" | sudo tee -a x.json > /dev/null', "x.json", "$A\"\\b'\\$C\n\tEOF\n"),
        ("x=$(cat <<\\EOF >| x.json; y", "x.json", "$A\"\\b'\\$C\n\tEOF\n"),
        ("cat <<EOF", "", "${env:A}\"\\b'$C\n\tEOF\n"),
    ],
)
def test_here_documents(command: str, file: str, body: str) -> None:
    end = "\n)" if "(" in command else ""
    script = parse_script(f"{command}\n\t$A\"\\b'\\$C\n\tEOF\nEOF{end}\nz".replace("\t$A", "$A"))
    assert [(document.file, str(document.body)) for document in script.documents] == [(file, body)]
    assert script.documents[0].is_appended == (">>" in command or "-a" in command)
    assert ["z"] in [list(map(str, words)) for words in script.commands]
    assert not any("b" in str(word) for words in script.commands for word in words if str(word) != "sub")


def test_here_document_of_a_shell_has_commands() -> None:
    script = parse_script("ssh host bash -s <<'EOF'\na 'b c'\nd <<X\ne\nX\nEOF\n")
    assert [list(map(str, words)) for words in script.commands] == [["ssh", "host", "bash", "-s"], ["a", "b c"], ["d"]]
    assert [document.text for document in script.documents] == ["e\n"]


def test_properties_in_a_here_document(importer: Any, tmp_path: Path) -> None:
    text = """usage() {
    cat <<EOF
Don't call `x` with HoodieStreamer --op
EOF
}
cat <<-EOF > /tmp/$NAME.properties
\tinclude=base.properties
\thoodie.datasource.write.recordkey.field=id
\thoodie.z=${FIELD:-ts}
EOF
cat >> /tmp/$NAME.properties <<'EOF'
hoodie.y=a$b
EOF
"""
    (tmp_path / "base.properties").write_text("hoodie.x=5\n", encoding="utf-8")
    job = JOB.replace(
        "--hoodie-conf hoodie.datasource.write.recordkey.field=id", "--props file:///tmp/$NAME.properties"
    )
    result = run(importer, tmp_path, text + job)
    rule = yaml.safe_load(result.pipeline)["tables"][0]
    assert rule["key"] == ["id"]
    assert (rule["sink"]["hudi"]["hoodie.x"], rule["sink"]["hudi"]["hoodie.y"]) == ("5", "a$b")
    report = " ".join(str(result.report).split())
    assert "run.sh, line 2 the here-document is not imported" in report
    assert report.count("here-document") == 1
    assert "no default for FIELD" in report


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cat <<EOF > x.properties\na=hunter2$(b)\nEOF\n" + JOB + "--props x.properties", "the shell replaces $(…)"),
        ("cat <<EOF > x.sh\n" + JOB + "\nEOF\n", "the file has no commands of Hudi Streamer"),
        (JOB + "<<EOF", "not a command line: no line EOF"),
    ],
)
def test_here_document_that_is_not_known(text: str, what: str, importer: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        run(importer, tmp_path, text)
    assert error.value.what.startswith(what)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("added", "shown", "place"),
    [
        ('"${ARGS[@]}"', "${ARGS[@]}", ""),
        ('"$@"', "$@", ""),
        ("$OPTS", "$OPTS", ""),
        ("--op $(cat hunter2)", "$(…)", "--op"),
        ("--op `cat hunter2`", "`…`", "--op"),
        ("--op=hunter2${OP%hunter2}", "${OP%…}", "--op"),
        (f'--hoodie-conf "a.jaas={JAAS.format("hunter2$@")}"', "$@", "--hoodie-conf a.jaas"),
        ('--hoodie-conf "a.url=http://u:hunter2@$(hostname)"', "$(…)", "--hoodie-conf a.url"),
        ("--mystery hunter2=$(x)", "$(…)", "--mystery"),
        ('--hoodie-conf "a.b=${PW:+hunter2}"', "${PW:+…}", "--hoodie-conf a.b"),
    ],
)
def test_an_error_names_option_and_expansion_only(
    added: str, shown: str, place: str, importer: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        run(importer, tmp_path, f"{JOB} {added}\n")
    assert error.value.what == f"the shell replaces {shown} with text that is not in the command"
    assert str(error.value.where) == ", ".join(filter(None, [str(tmp_path / "run.sh"), place]))
    assert "hunter2" not in str(error.value)


def test_quoted_dollars_stay(importer: Any, tmp_path: Path) -> None:
    jaas = JAAS.format("p$@$hunter2")
    text = (
        f"{JOB} --hoodie-conf 'sasl.jaas.config={jaas}' --hoodie-conf 'hoodie.y=a$b' --hoodie-conf \"hoodie.z=5\\$5\""
    )
    result = run(importer, tmp_path, text)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"]["kafka.sasl.jaas.config"] == "${env:SASL_JAAS_CONFIG}"
    options = pipeline["tables"][0]["sink"]["hudi"]
    assert (options["hoodie.y"], options["hoodie.z"]) == ("a$b", "5$5")
    assert "hunter2" not in result.pipeline + str(result.report)


def test_a_hash_in_a_word_is_no_comment(importer: Any, tmp_path: Path) -> None:
    result = run(importer, tmp_path, f"{JOB} --hoodie-conf hoodie.x=a#b --op BULK_INSERT # --op UPSERT")
    options = yaml.safe_load(result.pipeline)["tables"][0]["sink"]["hudi"]
    assert options == {"mode": "append", "hoodie.x": "a#b"}


@pytest.mark.parametrize(
    ("folder", "path", "variables"),
    [
        ('"$TARGET"', "${env:HEADRACE_PATH}", "HEADRACE_PATH to a new folder"),
        ("s3://$TARGET", "${env:HEADRACE_PATH}", "HEADRACE_PATH to a new folder"),
        ("${BASE:-s3://hunter2}/orders", "${env:BASE}/headrace", "BASE; headrace has no default for BASE"),
        ("${BASE:?hunter2}/orders", "${env:BASE}/headrace", "variable BASE"),
        ("'${file:/etc/lake:x}/orders'", "${file:/etc/lake:x}/headrace", ""),
    ],
)
def test_variables_give_no_local_folder(folder: str, path: str, variables: str, importer: Any, tmp_path: Path) -> None:
    result = run(importer, tmp_path, JOB.replace("s3://lake/silver/orders", folder))
    assert yaml.safe_load(result.pipeline)["sink"]["hudi"]["path"] == path
    assert variables in " ".join(str(result.report).split())
    assert "TARGET," not in str(result.report)
    assert "hunter2" not in result.pipeline + str(result.report)


def test_operation_in_a_variable_is_to_do(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    result = run(importer, tmp_path, f"{JOB} --op ${{OP:-INSERT}}")
    assert "--op" in find_keys(result, Kind.TO_DO)
    assert "a variable has the operation" in str(result.report)


@pytest.mark.parametrize(
    ("source", "files", "keys"),
    [
        ("CsvDFSSource", {"format": "csv", "sep": ";", "header": True}, set()),
        ("com.acme.OwnSource", {"format": "avro"}, {"--source-class"}),
    ],
)
def test_format_of_files(source: str, files: dict[str, Any], keys: set[str], importer: Any, tmp_path: Path) -> None:
    job = JOB.replace("JsonKafkaSource", source).replace("kafka.topic=orders", "dfs.root=s3://in/orders")
    options = " --hoodie-conf 'hoodie.streamer.csv.sep=;' --hoodie-conf hoodie.deltastreamer.csv.header=TRUE"
    result = run(importer, tmp_path, job + options)
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["source"]["files"] == {"path": "s3://in/orders", **files}
    found = {key for item in result.report.findings if "no format for the files" in item.why for key in item.keys}
    assert found == keys
