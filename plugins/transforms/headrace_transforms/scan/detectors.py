"""Detectors of personal data: by the form of values, and by the names of columns."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace_transforms.scan.checksums import is_iban, is_luhn, is_national_id

_KEY = 'key: "${env:MASK_KEY}"'
#: Rule that takes every type but lists and structs.
HASH_RULE = f"{{hmac_sha256: {{{_KEY}}}}}"
#: Frequent given names of several languages. They make a name probable, and no name must be one of them.
_GIVEN = frozenset(
    """
    adam ahmed aisha alan albert alex alexander ali alice amy ana andrea andreas andrew angela anita anna anne
    antonio barbara beatrice ben benjamin bruno carla carlos carol catherine charles charlotte chen chris christian
    christina claire claudia daniel david deborah denis diana diego dirk donald dorothy edward elena elias elif
    elisabeth elizabeth ella emily emma eric erik esther eva fatima felix fiona francesca francesco frank franz
    gabriel george giovanni giulia grace greta hans hannah harald heidi helen henry hugo ibrahim igor ines ingrid
    irene isabel ivan jack jacob james jan jane jason jean jennifer jessica joan joao johannes john jonas jorge jose
    joseph juan julia julie karen karl katarzyna katherine kenji kevin klaus lara laura lea leo leon lena li liam
    linda lisa louis luca lucas lucy luis luisa maria marc marco margaret marie mario mark markus marta martin mary
    matteo matthias max mehmet mei mia michael michel miguel mohamed monica monika mustafa nadia natalia nicolas
    nicole nina noah nora olga oliver olivia oscar pablo patricia patrick paul paula pedro peter philipp pierre
    piotr priya rachel raj ralf raphael rebecca regina richard robert roberto rosa ruth ryan sabine samuel sandra
    sara sarah sebastian simon sofia sophie stefan stephan stephen susan susanne svetlana sven thomas tim tobias tom
    tomas ulrich ursula valentina vera victor victoria walter wei werner william wolfgang yuki yusuf zoe
    """.split()  # noqa: SIM905 - a list has a line for each name
)
_STREET = re.compile(
    r"""(?ix) ( [a-zà-ÿ]{2,}(strasse|straße|str\.|weg|gasse|platz|allee|straat|laan)\s+\d+\s?[a-z]? (?:,.*)?
    | \d+\w?,?\s+ (?:[\w'.-]+\s+){0,4} (street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|square|terrace)\b.*
    | (\d+\w?,?\s+)? (rue|avenue|boulevard|chemin|place|quai|impasse|allée)\s+ [a-zà-ÿ].*
    | (via|viale|piazza|corso|calle|avenida|plaza|paseo|rua|ulica|ul\.)\s+ [a-zà-ÿ'. ]+ ,?\s* (n[º°.]?\s*)?\d+.*
    | (am|im|an\ der|auf\ dem|zum|zur)\s+ [a-zà-ÿ]+\s+\d+\s?[a-z]? | (p\.?\s?o\.?\s?box|postfach)\s+\d+ )"""
)
_INTERNATIONAL = re.compile(r"(\+|00)[1-9][\d ()./-]{6,22}(\s?(x|ext\.?)\s?\d{1,6})?")
_NATIONAL = re.compile(
    r"\(?0\d{1,4}\)?[ /.-]\d{2,8}([ .-]?\d{2,6}){0,4}|\(?[2-9]\d{2}\)?[ .-]\d{3}[.-]\d{4}(\s?(x|ext\.?)\s?\d{1,6})?"
)
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
#: Issuer → first digits and number of digits.
_CARD = re.compile(
    r"4(\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3(0[0-5]|[689]\d)\d{11}|6(011|5\d\d|4[4-9]\d)\d{12}|35\d{14}"
)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*\.?")


@dataclass(frozen=True)
class Detector:
    """One kind of personal data."""

    kind: str
    matches: Callable[[str], bool]
    #: Words of column names.
    words: re.Pattern[str]
    #: Probability that a value of another kind matches.
    chance: float
    #: Rule of ``mask``.
    rule: str
    #: Values that match only in a column with such a name; None: the same values.
    matches_named: Callable[[str], bool] | None = None
    #: Values that also match if a fifth of the values do; None: no others.
    resembles: Callable[[str], bool] | None = None

    @property
    def is_strict(self) -> bool:
        """Whether a single value that matches is hardly of another kind."""
        return self.chance <= 0.1


def split_words(name: str) -> str:
    """Return the words of a column name in lower case: ``homePhone2`` is ``home phone 2``."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)", " ", name)
    return re.sub(r"[\W_]+", " ", name).lower()


def _words(*words: str) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(words)})\b")


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(\.[\w-]+)*\.[^\W\d_]{2,}", text) is not None


def _is_phone(text: str) -> bool:
    if _DATE.fullmatch(text) or not 7 <= sum(c.isdigit() for c in text.partition("x")[0]) <= 15:
        return False
    return bool(_INTERNATIONAL.fullmatch(text) or _NATIONAL.fullmatch(text))


def _is_phone_number(text: str) -> bool:
    return re.fullmatch(r"\+?[\d ()./-]{6,22}(\s?(x|ext\.?)\s?\d{1,6})?", text) is not None and not _DATE.fullmatch(
        text
    )


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    return (
        re.fullmatch(r"\d[\d -]{11,22}\d", text) is not None and _CARD.fullmatch(digits) is not None and is_luhn(digits)
    )


def _is_iban(text: str) -> bool:
    text = text.replace(" ", "").upper()
    return re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", text) is not None and is_iban(text)


def _is_ip(text: str) -> bool:
    """Return whether the text is an IP address. Four small numbers are rather a version."""
    return _is_ip_or_version(text) and (":" in text or max(map(int, text.split("."))) >= 50)


def _is_ip_or_version(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_name(text: str) -> bool:
    return _is_formed_name(text) and any(word.lower() in _GIVEN for word in re.split(r"[,\s-]+", text))


def _is_formed_name(text: str) -> bool:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    are_capitalized = all(_WORD.fullmatch(word) for word in words) and words and words[0][0].isupper()
    return 2 <= len(words) <= 5 and bool(are_capitalized) and words[-1][0].isupper()


def _is_named_name(text: str) -> bool:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    return 1 <= len(words) <= 5 and all(_WORD.fullmatch(word) for word in words) and any(w[0].isupper() for w in words)


def _is_address(text: str) -> bool:
    return _STREET.fullmatch(text) is not None


def _is_named_address(text: str) -> bool:
    return _is_address(text) or re.fullmatch(r"(?=.*\d)(?=.*[^\W\d_]{3}).{6,120}", text) is not None


def _is_formed_id(text: str) -> bool:
    """Return whether the text is a national id with a checked form: also of the United States or the United Kingdom."""
    ssn, nino = (
        r"(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}",
        r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
    )
    return re.fullmatch(f"{ssn}|{nino}", text) is not None or is_national_id(text)


#: The first of equally confident detectors decides.
DETECTORS = (
    Detector("email", _is_email, _words("e? ?mails?", "mail"), 0.001, f"{{token: {{format: email, {_KEY}}}}}"),
    Detector("iban", _is_iban, _words("iban", "account"), 0.01, HASH_RULE),
    Detector("card", _is_card, _words("cards?", "pan", "credit"), 0.1, f"{{token: {{format: card, {_KEY}}}}}"),
    Detector(
        "national id",
        _is_formed_id,
        _words(
            "ssn",
            "ahv",
            "avs",
            "dni",
            "nie",
            "nino",
            "nir",
            "social",
            "national",
            "insurance",
            "codice",
            "tax",
            "insee",
        ),
        0.05,
        HASH_RULE,
    ),
    Detector("ip", _is_ip, _words("ip", "ipv4", "ipv6", "host", "client"), 0.05, "{ip_network: {}}", _is_ip_or_version),
    Detector(
        "phone",
        _is_phone,
        _words("phones?", "tel", "telefon", "telephone", "mobile?", "cell", "fax", "handy", "telefono"),
        0.2,
        f"{{token: {{format: phone, {_KEY}}}}}",
        _is_phone_number,
    ),
    Detector(
        "address",
        _is_address,
        _words("address", "adresse", "street", "strasse", "addr", "direccion", "indirizzo", "rue", "line"),
        0.2,
        HASH_RULE,
        _is_named_address,
    ),
    Detector(
        "name",
        _is_name,
        _words(
            *(
                "((first|last|full|family|given|middle|maiden|sur|customer|contact|holder|person|user|display) ?names?)",
            ),
            *(
                "surname",
                "lastname",
                "firstname",
                "fullname",
                "vorname",
                "nachname",
                "nom",
                "prenom",
                "nombre",
                "cognome",
            ),
            *("apellido", "patient", "owner", "author", "employee", "customer", "fname", "lname"),
        ),
        0.3,
        HASH_RULE,
        _is_named_name,
        _is_formed_name,
    ),
)
