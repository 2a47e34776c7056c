"""Changes of the shop's database: twenty statements, one transaction each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

#: Salt of hashed columns.
SALT = "pepper"


@dataclass(frozen=True)
class ShopChange:
    """Statement on one row, and its expected effect: the string of a column, or None for a deleted row.

    ``row`` is a condition that is valid in PostgreSQL and in Spark.
    """

    kind: Literal["insert", "update", "delete"]
    table: str
    row: str
    sql: str
    column: str = ""
    text: str | None = None
    masked: bool = False

    @property
    def stored_text(self) -> str | None:
        """The expected string in the tables."""
        if self.text is None or not self.masked:
            return self.text
        return hashlib.sha256(f"{SALT}{self.text}".encode()).hexdigest()


def _insert(table: str, row: str, columns: str, values: str, column: str, text: str) -> ShopChange:
    return ShopChange("insert", table, row, f"insert into {table} ({columns}) values ({values})", column, text)  # noqa: S608


def _update(table: str, row: str, column: str, text: str) -> ShopChange:
    return ShopChange("update", table, row, f"update {table} set {column} = '{text}' where {row}", column, text)  # noqa: S608


def _delete(table: str, row: str) -> ShopChange:
    return ShopChange("delete", table, row, f"delete from {table} where {row}")  # noqa: S608


_RENTAL = "rental_id, rental_date, inventory_id, customer_id, staff_id"
_PAYMENT = "payment_id, customer_id, staff_id, rental_id, amount, payment_date"
_CUSTOMER = "customer_id, store_id, first_name, last_name, email, address_id"
_FILM = "film_id, title, language_id, special_features"

#: The change whose row is printed before and after.
SHOWN = ShopChange(
    "update",
    "customer",
    "customer_id = 1",
    "update customer set last_name = 'ARP', email = 'mary.arp@example.org' where customer_id = 1",
    "email",
    "mary.arp@example.org",
    masked=True,
)

#: All changes in order; the first five include every kind.
CHANGES = (
    _insert("rental", "rental_id = 20001", _RENTAL, "20001, '2020-07-01 10:00+00', 1, 1, 1", "inventory_id", "1"),
    _insert(
        "payment", "payment_id = 40001", _PAYMENT, "40001, 1, 1, 20001, 2.99, '2020-07-01 10:01+00'", "amount", "2.99"
    ),
    SHOWN,
    _delete("payment", "payment_id = 20718"),
    _update("film", "film_id = 1", "rental_rate", "1.99"),
    _update("rental", "rental_id = 20001", "staff_id", "2"),
    _update("payment", "payment_id = 40001", "amount", "3.49"),
    _insert(
        "customer", "customer_id = 601", _CUSTOMER, "601, 1, 'ANNA', 'HÖCH', 'anna@example.org', 5", "last_name", "HÖCH"
    ),
    _insert(
        "film",
        "film_id = 1001",
        _FILM,
        "1001, 'CUT WITH A KITCHEN KNIFE', 1, '{Trailers}'",
        "title",
        "CUT WITH A KITCHEN KNIFE",
    ),
    _insert("rental", "rental_id = 20002", _RENTAL, "20002, '2020-07-01 11:00+00', 2, 601, 1", "customer_id", "601"),
    _update("customer", "customer_id = 601", "first_name", "HANNAH"),
    _insert(
        "payment", "payment_id = 40002", _PAYMENT, "40002, 601, 1, 20002, 0.99, '2020-07-01 11:01+00'", "amount", "0.99"
    ),
    _update("film", "film_id = 1001", "rating", "NC-17"),
    _delete("payment", "payment_id = 40001"),
    _delete("rental", "rental_id = 20001"),
    _update("rental", "rental_id = 20002", "inventory_id", "3"),
    _update("customer", "customer_id = 2", "active", "0"),
    _update("payment", "payment_id = 40002", "amount", "1.99"),
    _delete("film", "film_id = 1001"),
    _delete("rental", "rental_id = 16049"),
)
