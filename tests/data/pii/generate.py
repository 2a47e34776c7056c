"""Labelled columns with and without personal data, for the figures of ``headrace scan``. All values are synthetic.

``python tests/data/pii/generate.py`` writes ``columns.jsonl``: a line per column with its name, its label and its values.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

GIVEN = [
    "Anneliese",
    "Bruno",
    "Chiara",
    "Dmitri",
    "Eleni",
    "Francesca",
    "Greta",
    "Hiroshi",
    "Ingrid",
    "Jamal",
    "Kenji",
    "Laura",
    "Marek",
    "Nadia",
    "Olivier",
    "Priya",
    "Quentin",
    "Rosa",
    "Sofia",
    "Tariq",
    "Ursula",
    "Valentina",
    "Wanda",
    "Xavier",
    "Yuki",
    "Zoe",
    "Peter",
    "Maria",
    "John",
    "Sarah",
    "Thomas",
    "Emma",
    "Mohamed",
    "Li",
    "Carlos",
    "Anna",
]
FAMILY = [
    "Müller",
    "Rossi",
    "García",
    "Novák",
    "O'Brien",
    "Nguyen",
    "Kowalski",
    "Smith-Jones",
    "Dubois",
    "Andersson",
    "Tanaka",
    "Okafor",
    "Schmidt",
    "Silva",
    "Ivanov",
    "Haddad",
    "Jansen",
    "Keller",
    "Lindqvist",
    "Moreau",
    "Patel",
    "Fischer",
    "Brown",
    "Williams",
]
STREETS = {
    "de": ("Bahnhofstrasse", "Lindenweg", "Hauptstraße", "Seegasse", "Marktplatz", "Im Grund", "Rosenallee"),
    "en": ("Maple Street", "Oak Ave", "King's Road", "Mill Ln", "Station Rd", "W 42nd St", "Sunset Blvd"),
    "fr": ("rue de Rivoli", "avenue Foch", "chemin des Vignes", "place de la Gare"),
    "it": ("Via Garibaldi", "Piazza Dante", "Corso Italia", "Viale Monza"),
}
DNI = "TRWAGMYFPDXBNJZSQVHLCKE"
Make = Callable[[random.Random], str]


def digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def add_luhn(body: str) -> str:
    numbers = [int(digit) for digit in reversed(body)]
    total = sum(sum(divmod(n * 2, 10)) if i % 2 == 0 else n for i, n in enumerate(numbers))
    return body + str(-total % 10)


def card(rng: random.Random) -> str:
    prefix, count = rng.choice([("4", 16), ("52", 16), ("37", 15), ("6011", 16)])
    return add_luhn(prefix + digits(rng, count - 1 - len(prefix)))


def group(text: str) -> str:
    return " ".join(text[n : n + 4] for n in range(0, len(text), 4))


def iban(rng: random.Random) -> str:
    country, count = rng.choice([("CH", 17), ("DE", 18), ("ES", 20), ("NO", 11)])
    account = digits(rng, count)
    number = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(number) % 97:02}{account}"


def ahv(rng: random.Random) -> str:
    body = "756" + digits(rng, 9)
    check = -sum(int(c) * (3 if n % 2 else 1) for n, c in enumerate(body)) % 10
    return f"756.{body[3:7]}.{body[7:11]}.{body[11:]}{check}"


def dni(rng: random.Random) -> str:
    number = digits(rng, 8)
    return number + DNI[int(number) % 23]


def ssn(rng: random.Random) -> str:
    return f"{rng.randint(1, 665):03}-{rng.randint(1, 99):02}-{rng.randint(1, 9999):04}"


def email(rng: random.Random) -> str:
    local = rng.choice(
        [f"{rng.choice(GIVEN)}.{rng.choice(FAMILY)}", f"{rng.choice(GIVEN)}+{digits(rng, 3)}", digits(rng, 6)]
    )
    return f"{local.lower().replace(' ', '')}@{rng.choice(['example.org', 'mail.example.co.uk', 'exämple.ch'])}"


def full_name(rng: random.Random) -> str:
    return f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}"


def address(country: str) -> Make:
    def make(rng: random.Random) -> str:
        street, number = rng.choice(STREETS[country]), rng.randint(1, 240)
        if country in ("de", "it"):
            return f"{street} {number}{rng.choice(['', '', 'a'])}"
        return f"{number} {street}"

    return make


def ipv4(rng: random.Random) -> str:
    return f"{rng.choice([10, 172, 192, 198, 203])}.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"


def ipv6(rng: random.Random) -> str:
    return f"2001:db8:{rng.randint(0, 65535):x}::{rng.randint(1, 65535):x}"


def grouped(form: str) -> Make:
    """Return a maker that replaces each ``#`` by a digit, and each ``N`` by a digit from 2 to 9."""
    return lambda rng: "".join(rng.choice("0123456789" if c == "#" else "23456789") if c in "#N" else c for c in form)


def words(text: str, count: int = 1) -> Make:
    return lambda rng: " ".join(rng.choice(text.split("|")) for _ in range(count))


PRODUCTS = "Red Chair|Blue Lamp|Oak Table|Green Sofa|Grey Rug|Steel Shelf|Walnut Desk"
CITIES = "Zürich|Bern|Paris|London|New York|San Francisco|Roma|Madrid"
#: Label → column name → maker of values. A name such as ``c1`` gives no hint.
POSITIVES: dict[str, dict[str, Make]] = {
    "email": {"email": email, "c1": email, "contact": email, "login": email},
    "phone": {
        "phone": grouped("+41 79 ### ## ##"),
        "mobile": grouped("07########"),
        "c2": grouped("+49 (0)30 ########"),
        "c3": grouped("(N##) N##-####"),
        "c4": grouped("0## ### ## ##"),
        "c5": grouped("+1##########"),
        "home_phone": grouped("N##.N##.####"),
        "tel": grouped("44 ### ## ##"),
    },
    "card": {"card_number": card, "c6": lambda rng: group(card(rng)), "pan": card, "c7": card},
    "iban": {"iban": iban, "c8": lambda rng: group(iban(rng)), "bank": iban},
    "ip": {"ip": ipv4, "c9": ipv4, "c10": ipv6, "client_ip": ipv6},
    "name": {
        "first_name": lambda rng: rng.choice(GIVEN),
        "last_name": lambda rng: rng.choice(FAMILY),
        "fullName": full_name,
        "c11": full_name,
        "nachname": lambda rng: rng.choice(FAMILY),
        "c12": lambda rng: f"{rng.choice(FAMILY)}, {rng.choice(GIVEN)}",
        "customer": full_name,
    },
    "address": {
        "address": address("en"),
        "strasse": address("de"),
        "c13": address("de"),
        "c14": address("en"),
        "c15": address("fr"),
        "indirizzo": address("it"),
        "c16": lambda rng: f"{address('en')(rng)}, {rng.choice(CITIES.split('|'))} {digits(rng, 5)}",
    },
    "national id": {"ahv": ahv, "c17": ahv, "dni": dni, "c18": dni, "ssn": ssn, "c19": ssn},
}
NEGATIVES: dict[str, Make] = {
    "id": grouped("########"),
    "order_number": grouped("################"),
    "order_no": grouped("ORD-2024-#####"),
    "n1": grouped("4###############"),
    "created_at": lambda rng: (
        f"20{rng.randint(10, 26)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T12:{digits(rng, 1)}0:00Z"
    ),
    "day": lambda rng: f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.20{rng.randint(10, 26)}",
    "updated_ms": grouped("17###########"),
    "unix_time": grouped("17########"),
    "version": lambda rng: f"{rng.randint(0, 4)}.{rng.randint(0, 20)}.{rng.randint(0, 30)}",
    "build": lambda rng: f"{rng.randint(1, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}.{rng.randint(0, 40)}",
    "latitude": lambda rng: f"{rng.uniform(-90, 90):.6f}",
    "location": lambda rng: f"{rng.uniform(-90, 90):.5f}, {rng.uniform(-180, 180):.5f}",
    "price": lambda rng: f"{rng.uniform(1, 900):.2f}",
    "uuid": lambda rng: f"{rng.getrandbits(128):032x}",
    "sha": lambda rng: f"{rng.getrandbits(160):040x}",
    "product": words(PRODUCTS),
    "product_name": words(PRODUCTS),
    "city": words(CITIES),
    "country": words("CH|DE|FR|IT|US|GB"),
    "status": words("open|paid|shipped|returned"),
    "ean": grouped("76###########"),
    "isbn": grouped("978-3-##-######-#"),
    "sku": grouped("AB###-NNN"),
    "tracking": grouped("99 ## ### ### ########"),
    "url": lambda rng: f"https://shop.example.org/p/{digits(rng, 5)}?ref=@{digits(rng, 2)}",
    "mac": lambda rng: ":".join(f"{rng.randint(0, 255):02x}" for _ in range(6)),
    "note": words("delivered late|call before noon|leave at the door|3 items missing|Gift wrap please", 2),
    "user_agent": words("Mozilla/5.0 (X11; Linux x86_64)|curl/8.5.0|okhttp/4.12.0"),
    "company": words("Example AG|Acme Inc|Globex GmbH|Initech Ltd|Umbrella SA"),
    "dimensions": lambda rng: f"{rng.randint(10, 99)} x {rng.randint(10, 99)} x {rng.randint(10, 99)} cm",
    "duration": lambda rng: f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}",
    "zip": grouped("8###"),
    "invoice": grouped("0###-######"),
    "range": lambda rng: f"{rng.randint(0, 50)}-{rng.randint(51, 99)}",
    "weekday": words("Monday|Tuesday|Friday"),
    "month": words("April 2024|May 2024|June 2025|August 2025"),
}
ROWS = 40


def make_columns() -> list[dict[str, object]]:
    """Return the columns. One value in twenty of a positive column is empty, unknown or mistyped."""
    rng = random.Random(20_240_611)
    columns: list[dict[str, object]] = []
    for label, makers in [*POSITIVES.items(), ("", NEGATIVES)]:
        for name, make in makers.items():
            values = [make(rng) for _ in range(ROWS)]
            for n in range(0, ROWS if label else 0, 20):
                values[n + rng.randrange(20)] = rng.choice(["", "unknown", "n/a", "?"])
            columns.append({"name": name, "label": label, "values": values})
    return columns


if __name__ == "__main__":
    lines = [json.dumps(column, ensure_ascii=False) for column in make_columns()]
    Path(__file__).with_name("columns.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
