"""TLS of connections to PostgreSQL, MySQL and MariaDB, from the options of Debezium's connectors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from headrace.sdk import ConfigError
from headrace.sdk.options import did_you_mean

Options = Mapping[str, str]


class TlsMode(IntEnum):
    """Modes of the connectors, from the weakest. VERIFIED checks the certificate; NAMED also the server's name in it."""

    OFF = 0
    PREFERRED = 1
    REQUIRED = 2
    VERIFIED = 3
    NAMED = 4


#: Debezium compares the names in any case. `trust` and the names with a dash are those of the connector for MariaDB since 3.5.
_POSTGRESQL_MODES = {
    "disable": TlsMode.OFF,
    "allow": TlsMode.PREFERRED,
    "prefer": TlsMode.PREFERRED,
    "require": TlsMode.REQUIRED,
    "verify-ca": TlsMode.VERIFIED,
    "verify-full": TlsMode.NAMED,
}
_MYSQL_MODES = {
    "disabled": TlsMode.OFF,
    "disable": TlsMode.OFF,
    "preferred": TlsMode.PREFERRED,
    "required": TlsMode.REQUIRED,
    "trust": TlsMode.REQUIRED,
    "verify_ca": TlsMode.VERIFIED,
    "verify-ca": TlsMode.VERIFIED,
    "verify_identity": TlsMode.NAMED,
    "verify-full": TlsMode.NAMED,
}
#: Default of PostgreSQL's JDBC driver.
_ROOT_CERTIFICATE = "~/.postgresql/root.crt"


class _Files(NamedTuple):
    """Options with the files of a connection."""

    authority: str
    certificate: str
    key: str
    password: str


_POSTGRESQL_FILES = _Files("database.sslrootcert", "database.sslcert", "database.sslkey", "database.sslpassword")
_MYSQL_FILES = _Files(
    "database.ssl.truststore", "database.ssl.keystore", "database.ssl.keystore", "database.ssl.keystore.password"
)
#: Options that the preflight reads.
TLS_OPTIONS = ("database.sslmode", *_POSTGRESQL_FILES, "database.ssl.mode", *_MYSQL_FILES)


def read_postgresql_tls(options: Options) -> tuple[TlsMode, ssl.SSLContext | None]:
    """Return the mode of ``database.sslmode`` and its TLS context. The driver verifies with its default file or not at all."""
    mode = _read_mode(options, "database.sslmode", _POSTGRESQL_MODES, "prefer")
    default = {_POSTGRESQL_FILES.authority: str(Path(_ROOT_CERTIFICATE).expanduser())}
    return mode, _make_context(mode, {**default, **options}, _POSTGRESQL_FILES)


def read_mysql_tls(options: Options) -> tuple[TlsMode, ssl.SSLContext | None]:
    """Return the mode of ``database.ssl.mode`` and its TLS context. Without a trust store, the system's authorities count."""
    mode = _read_mode(options, "database.ssl.mode", _MYSQL_MODES, "preferred")
    return mode, _make_context(mode, options, _MYSQL_FILES)


def _read_mode(options: Options, key: str, modes: Mapping[str, TlsMode], default: str) -> TlsMode:
    name = options.get(key, default).strip()
    if name.lower() not in modes:
        raise ConfigError(f"`{key}` has no mode {name!r}", fix=did_you_mean(name, modes))
    return modes[name.lower()]


def _make_context(mode: TlsMode, options: Options, files: _Files) -> ssl.SSLContext | None:
    if mode == TlsMode.OFF:
        return None
    authority = options.get(files.authority) if mode >= TlsMode.VERIFIED else None
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise _explain_file(files.authority, authority, error) from error
    context.verify_flags &= (
        ~ssl.VERIFY_X509_STRICT
    )  # Java does not have these checks, and authorities of databases fail them.
    context.check_hostname = mode == TlsMode.NAMED
    context.verify_mode = ssl.CERT_REQUIRED if mode >= TlsMode.VERIFIED else ssl.CERT_NONE
    if certificate := options.get(files.certificate):
        key = options.get(files.key)
        try:  # without a password, OpenSSL would ask for it
            context.load_cert_chain(certificate, key, password=options.get(files.password, ""))
        except OSError as error:
            both = f"{certificate} and {key}" if key and key != certificate else certificate
            raise _explain_file(files.certificate, both, error) from error
    return context


def _explain_file(key: str, path: str | None, error: OSError) -> ConfigError:
    """Return the error of a file: a store of Java is no PEM file, and a path of the worker mostly does not exist here."""
    reason = "it is not a PEM file" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    what = f"`{key}`, {path}, cannot be used on this machine: {reason}"
    fix = f"set `{key}` in `connect: {{preflight: …}}` to a PEM file; `keytool -exportcert -rfc` writes one from a store of Java"
    return ConfigError(what, fix=fix)
