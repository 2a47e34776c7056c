"""References in pipeline files: resolution, errors, and redaction of their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.config.references import PROVIDERS, Resolver
from headrace.config.yaml_document import parse
from headrace.errors import ConfigError, RetriableError
from headrace.sdk.secrets import SecretProvider


def resolve(text: str, **providers: SecretProvider) -> object:
    document = parse(text, "p.yaml")
    return Resolver({**PROVIDERS, **providers}).resolve(document.data, document.where)


def error_of(text: str, **providers: SecretProvider) -> str:
    with pytest.raises(ConfigError) as raised:
        resolve(text, **providers)
    return str(raised.value)


def vault(name: str) -> str:
    return f"<{name}>"


def test_references_are_resolved_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET", "lake")
    text = "path: s3a://${env:BUCKET}/silver\nitems: [{deep: '${env:BUCKET}-${env:BUCKET}'}, 7, null]\n"
    assert resolve(text) == {"path": "s3a://lake/silver", "items": [{"deep": "lake-lake"}, 7, None]}


def test_trailing_line_break_of_a_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "salt").write_bytes(b"one\r\n\r\n")
    assert resolve(f"salt: ${{file:{tmp_path}/salt}}") == {"salt": "one\n"}


def test_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "salt").write_text("x")
    assert resolve("salt: ${file:~/salt}") == {"salt": "x"}


def test_key_of_a_properties_file_is_resolved(tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text("user = headrace\npassword = pep\\\n  per=1\n")
    assert resolve(f"a: ${{file:{file}:user}}/${{file:{file}:password}}") == {"a": "headrace/pepper=1"}
    error = error_of(f"a: ${{file:{file}:pasword}}")
    assert f"the file '{file}' has no key 'pasword'; did you mean 'password'?" in error
    assert "pepper" not in error
    assert f"the file '{tmp_path}/none' cannot be read: No such file" in error_of(f"a: ${{file:{tmp_path}/none:user}}")
    (tmp_path / "a:b").write_text("a file of that name")
    assert resolve(f"a: ${{file:{tmp_path}/a:b}}") == {"a": "a file of that name"}


def test_empty_value_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONE", "")
    assert resolve("a: x${env:NONE}y") == {"a": "xy"}


def test_name_of_a_provider_may_contain_digits_and_dashes() -> None:
    assert resolve("a: ${vault-2:db/moma#pass:word}", **{"vault-2": vault}) == {"a": "<db/moma#pass:word>"}


def test_nested_reference_is_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "salt").write_text("pepper\n")
    assert resolve("a: '[${file:${env:CREDENTIALS_DIRECTORY}/salt}]'") == {"a": "[pepper]"}


def test_resolved_value_is_not_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "${env:B}")
    monkeypatch.setenv("B", "secret")
    assert resolve("a: ${env:A}") == {"a": "${env:B}"}


@pytest.mark.parametrize("text", ["$", "${", "${}", "${HOME}", "$env:X", "a}b", "{topic}", "$(x)"])
def test_text_without_a_reference_is_unchanged(text: str) -> None:
    assert resolve(f"a: '{text}'") == {"a": text}


def test_escaped_reference_is_text() -> None:
    assert resolve("a: 'x$${env:NOBODY}y'") == {"a": "x${env:NOBODY}y"}


def test_all_missing_references_are_listed_with_every_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SALT", raising=False)
    text = f"a: ${{env:SALT}}\nb:\n  - c: ${{env:SALT}}\n    d: x${{file:{tmp_path}/none}}-${{env:OTHER_SALT}}\n"
    assert error_of(text) == (
        "4 references cannot be resolved:\n"
        "  p.yaml:1 a: ${env:SALT}: the environment has no variable 'SALT'\n"
        "  p.yaml:3 b.0.c: ${env:SALT}: the environment has no variable 'SALT'\n"
        f"  p.yaml:4 b.0.d: ${{file:{tmp_path}/none}}: the file '{tmp_path}/none' cannot be read: No such file or directory\n"
        "  p.yaml:4 b.0.d: ${env:OTHER_SALT}: the environment has no variable 'OTHER_SALT'\n"
        "  fix: give each reference a value"
    )


def test_missing_inner_reference_is_reported_alone() -> None:
    text = error_of("a: ${file:${env:NO_SUCH_FOLDER}/salt}")
    assert text.startswith(
        "1 reference cannot be resolved:\n  p.yaml:1 a: ${env:NO_SUCH_FOLDER}: the environment has no"
    )
    assert "${file:" not in text


def test_unknown_provider_is_rejected() -> None:
    assert "p.yaml:1 a: ${enf:SALT}: no secret provider 'enf'; did you mean 'env'?" in error_of("a: ${enf:SALT}")


def test_unclosed_reference_is_rejected() -> None:
    assert "p.yaml:1 a: ${env:SALT: it has no closing brace" in error_of("a: 'x${env:SALT'")


def test_binary_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "salt").write_bytes(b"\xff")
    assert "cannot be read: 'utf-8' codec" in error_of(f"a: ${{file:{tmp_path}/salt}}")


def test_all_errors_of_providers_are_reported_together() -> None:
    def busy(name: str) -> str:
        raise RetriableError("the vault is sealed", fix="unseal it")

    def fail(name: str) -> str:
        raise TimeoutError("no answer in 5 s")

    def empty(name: str) -> str:
        raise LookupError

    text = error_of("a: ${busy:x}\nb: ${broken:y}\nc: ${empty:z}\n", busy=busy, broken=fail, empty=empty)
    assert "a: ${busy:x}: the vault is sealed; unseal it" in text
    assert "b: ${broken:y}: the provider raised TimeoutError; its message is hidden" in text
    assert "5 s" not in text
    assert "c: ${empty:z}: not found" in text


@pytest.mark.parametrize(("value", "error"), [(None, "NoneType"), (b"pepper", "bytes"), (7, "int")])
def test_provider_that_returns_no_string_is_rejected(value: Any, error: str) -> None:
    text = error_of("a: ${vault:x}", vault=lambda _: value)
    assert f"a: ${{vault:x}}: the provider did not return a string, but {error}" in text
    assert "pepper" not in text


def test_provider_cannot_exit_the_program() -> None:
    def leave(name: str) -> str:
        raise SystemExit("pepper")

    text = error_of("a: ${leave:x}", leave=leave)
    assert "a: ${leave:x}: the provider raised SystemExit" in text
    assert "pepper" not in text


def test_value_is_a_secret_and_is_shown_as_its_reference() -> None:
    resolver = Resolver({"vault": {"one": "sesame"}.__getitem__})
    found = resolver.resolve({"a": "me:${vault:one}", "b": ["${vault:one}", "c", "$${vault:one}"]}, str)
    assert found == {"a": "me:sesame", "b": ["sesame", "c", "${vault:one}"]}
    assert repr(found) == "{'a': 'me:${vault:one}', 'b': ['${vault:one}', 'c', '${vault:one}']}"
    assert "sesame" not in repr(resolver)
    assert resolver.redact("the password is sesame") == "the password is ******"


@pytest.mark.parametrize(
    ("password", "escaped"),
    [('quote"in', r"quote\"in"), ("end\\", r"end\\"), ("single'quote", "single'quote"), ("a$b${c},;=1", "a$b${c},;=1")],
)
def test_value_in_quotes_of_a_jaas_configuration_is_escaped(
    monkeypatch: pytest.MonkeyPatch, password: str, escaped: str
) -> None:
    monkeypatch.setenv("PASSWORD", password)
    line = 'Login required username="a\\"b" password="{}" token="";'
    written = {"kafka.sasl.jaas.config": line.format("${env:PASSWORD}"), "other": line.format("${env:PASSWORD}")}
    found: Any = Resolver(PROVIDERS).resolve(written, str)
    assert found["kafka.sasl.jaas.config"] == line.format(escaped)
    assert found["other"] == line.format(password)


def test_jaas_value_in_single_quotes_and_without_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "a'b\"c")
    written = {"sasl.jaas.config": "Login required password='${env:PASSWORD}' other=${env:PASSWORD};"}
    assert Resolver(PROVIDERS).resolve(written, str) == {
        "sasl.jaas.config": "Login required password='a\\'b\"c' other=a'b\"c;"
    }
