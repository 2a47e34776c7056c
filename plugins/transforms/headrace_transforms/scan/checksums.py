"""Check digits of card numbers, bank accounts and national ids."""

from __future__ import annotations

import re

_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"
#: Values of the characters of a codice fiscale at odd places.
_FIRST = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD = dict(zip("0123456789", _FIRST, strict=True)) | dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (*_FIRST, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)


def is_luhn(digits: str) -> bool:
    """Return whether the check digit fits Luhn's algorithm."""
    numbers = [int(digit) for digit in reversed(digits)]
    return sum(numbers[::2] + [sum(divmod(number * 2, 10)) for number in numbers[1::2]]) % 10 == 0


def is_iban(text: str) -> bool:
    """Return whether an IBAN without spaces has its check digits (ISO 13616)."""
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def is_national_id(text: str) -> bool:
    """Return whether the text is a national id with check digits: of Switzerland, Spain, Italy or France."""
    text = re.sub(r"[ .-]", "", text.upper())
    if re.fullmatch(r"756\d{10}", text):
        return sum(int(digit) * (3 if n % 2 else 1) for n, digit in enumerate(text)) % 10 == 0
    if match := re.fullmatch(r"([XYZ]?)(\d{7,8})([A-Z])", text):
        first, number, letter = match.groups()
        return len(first + number) == 8 and _DNI[int(str("XYZ".find(first) if first else "") + number) % 23] == letter
    if re.fullmatch(r"[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]", text):
        total = sum(_even(c) if n % 2 else _ODD[c] for n, c in enumerate(text[:15]))
        return chr(65 + total % 26) == text[15]
    if re.fullmatch(r"[12]\d{2}(0[1-9]|1[0-2])\d{10}", text):
        return 97 - int(text[:13]) % 97 == int(text[13:])
    return False


def _even(character: str) -> int:
    return int(character) if character.isdigit() else ord(character) - 65
