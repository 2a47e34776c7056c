"""The certificates that this machine trusts, as Python finds them, for downloads and for a Java that brings its own list."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: Where systems keep their list, for a Python that was built to look elsewhere.
_SYSTEM_FILES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)
_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: What other programs call further files; Python's `requests` the first.
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
#: What Java's own tool uses where nobody names a password: what it guards is public.
_PASSWORD = "changeit"  # noqa: S105


def build_tls_context() -> ssl.SSLContext:
    """Trusts what SSL_CERT_FILE, SSL_CERT_DIR and REQUESTS_CA_BUNDLE name, else the system's list."""
    context = ssl.create_default_context()
    for file in _list_files():
        with suppress(OSError, ssl.SSLError):
            context.load_verify_locations(file)
    return context


def write_trust_store(file: Path) -> Path:
    """Writes what ``build_tls_context`` trusts as a Java key store (JKS), unless the file has just that already."""
    certificates = sorted({certificate for path in _list_files() for certificate in _read_certificates(path)})
    digest = hashlib.sha256(b"".join(certificates)).hexdigest()[:16]
    file = file.with_name(f"{file.stem}-{digest}{file.suffix}")
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_name(f"{file.name}.{os.getpid()}.half")
        half.write_bytes(_to_key_store(certificates))
        half.replace(file)
    return file


def trust_options(file: Path) -> str:
    """The Java options for a key store that ``write_trust_store`` wrote."""
    return f'"-Djavax.net.ssl.trustStore={file}" -Djavax.net.ssl.trustStoreType=JKS'


def _list_files() -> list[Path]:
    """The files of certificates: those that are named, and the system's where OpenSSL's own variables name none."""
    named = [Path(place) for name in (*_OPENSSL, *_BUNDLES) if (place := os.environ.get(name))]
    if not any(os.environ.get(name) for name in _OPENSSL):
        default = ssl.get_default_verify_paths()
        system = [Path(default.cafile or ""), *_SYSTEM_FILES]
        named += [file for file in system if file.is_file()][:1]
    return [file for place in named for file in _files_in(place)]


def _files_in(place: Path) -> list[Path]:
    return sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else [place]


def _read_certificates(file: Path) -> list[bytes]:
    """The certificates in a PEM file, as DER; none where it is something else."""
    try:
        text = file.read_text(encoding="ascii", errors="replace")
        return [ssl.PEM_cert_to_DER_cert(block) for block in _PEM.findall(text)]
    except (OSError, ValueError):
        return []


def _to_key_store(certificates: Iterable[bytes]) -> bytes:
    """A JKS file: a head, an entry for each certificate, and a digest of both, as sun.security.provider.JavaKeyStore has it."""
    entries = list(certificates)
    now = int(time.time() * 1000)
    parts = [struct.pack(">III", 0xFEEDFEED, 2, len(entries))]
    for number, certificate in enumerate(entries):
        parts += [struct.pack(">I", 2), _text(f"ca{number}"), struct.pack(">Q", now), _text("X.509")]
        parts += [struct.pack(">I", len(certificate)), certificate]
    body = b"".join(parts)
    guard = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(guard).digest()  # noqa: S324 - the format's


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
