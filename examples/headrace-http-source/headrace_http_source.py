"""Source of records from an HTTP API with pages and a cursor.

``GET URL?after=CURSOR&limit=N`` returns ``{"items": […], "next": CURSOR, "total": M}``: at most N records after the
cursor (without a cursor, the first ones), the cursor of the last of them, and the total number of records. The records
after a cursor must never change, except that new records are added at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import Request

from pydantic import Field, SecretStr

from headrace.sdk import (
    Config,
    ConfigError,
    DataError,
    FatalError,
    HeadraceError,
    LoginError,
    Offset,
    RangedSource,
    RetriableError,
    Source,
    SourceContext,
    hookimpl,
)
from headrace.sdk.error_text import full_text
from headrace.sdk.http import send

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Limits of a page: its size, the seconds between two bytes, and the total seconds.
MOST_BYTES, SILENCE, SECONDS = 64_000_000, 10, 60
#: Status of an error response → the class of headrace's error, its message, and the fix.
STATUSES: Mapping[int, tuple[type[HeadraceError], str, str]] = {
    401: (LoginError, "the API rejected the token", "correct `token`"),
    403: (LoginError, "the token has no permission for these records", "allow it to read them, or use another `token`"),
    404: (ConfigError, "no such address", "correct `url`"),
    429: (RetriableError, "the API received too many requests", "nothing is lost; set a larger `page_size`"),
}
KINDS = {kind.__name__: kind for kind in (ConfigError, DataError, FatalError, LoginError, RetriableError)}
#: An error of an executor in the text of a Spark error.
CARRIED = re.compile(r"headrace\.errors\.(\w+): (source http_source, \S+): (.+)\n\s*fix: (.+)")


class HttpSourceConfig(Config):
    """Address of the API, and the sizes of batches and pages."""

    url: str = Field(pattern="^https?://")
    """Address of the pages."""

    topic: str
    """Topic of the records, for the rules under `tables:`."""

    token: SecretStr | None = None
    """Sent as ``Authorization: Bearer …``."""

    limit: int = Field(default=10_000, ge=1)
    """Maximum number of records per batch."""

    page_size: int = Field(default=500, ge=1)
    """Maximum number of records per page."""


class Number(str):
    """Number in its original notation: a Python float has at most 17 significant digits."""

    __slots__ = ()


@dataclass(frozen=True)
class Page:
    """Content of one response."""

    items: list[Any]
    #: Cursor of the last item.
    next: str | None
    #: Total number of records.
    total: int


@dataclass(frozen=True)
class Api:
    """Client of the API, used on the driver and on executors."""

    url: str
    token: SecretStr | None
    page_size: int

    @property
    def where(self) -> str:
        return f"source http_source, {self.url}"

    def read_pages(self, after: str | None, count: int) -> Iterator[Page]:
        """Yield the pages after a cursor until they have ``count`` records, or until the last page."""
        while count > 0 and (page := self.request_page(after, min(count, self.page_size))).items:
            yield page
            after, count = page.next, count - len(page.items)

    def request_page(self, after: str | None, count: int) -> Page:
        """Request one page. The class of an error states who has to act."""
        query = urlencode({"limit": count} if after is None else {"after": after, "limit": count})
        request = Request(f"{self.url}{'&' if '?' in self.url else '?'}{query}")  # noqa: S310 - the model asks for http
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token.get_secret_value()}")
        try:
            response = send(request, idle_timeout=SILENCE, timeout=SECONDS, max_bytes=MOST_BYTES)
        except (OSError, HTTPException) as error:  # includes truncated pages
            what = f"the page is incomplete: {type(error).__name__}: {error}"
            raise RetriableError(what, where=self.where, fix="nothing is lost, and the request is retried") from None
        if response.status != 200:
            other = RetriableError if response.status >= 500 else ConfigError
            usual = (
                other,
                f"the API returned {response.status} {response.reason}",
                "look up this status in the documentation of the API",
            )
            kind, what, fix = STATUSES.get(response.status, usual)
            raise kind(what, where=self.where, fix=fix)
        return self._parse(response.body, count)

    def _parse(self, body: bytes, count: int) -> Page:
        try:
            content = json.loads(body, parse_float=Number)
            page = Page(content["items"], content["next"], content["total"])
        except ValueError:
            if body.lstrip().startswith(b"{"):  # without a Content-Length, a page may be truncated unnoticed
                raise RetriableError(
                    "the page is truncated", where=self.where, fix="nothing is lost, and the request is retried"
                ) from None
            raise ConfigError("the response is not JSON", where=self.where, fix="correct `url`") from None
        except (KeyError, TypeError) as error:
            what = f"the page has an invalid format: {error}"
            raise DataError(what, where=self.where, fix='{"items": […], "next": CURSOR, "total": NUMBER}') from None
        if len(page.items) > count:
            what = f"the API returned {len(page.items)} records for a limit of {count}"
            raise DataError(what, where=self.where, fix="correct the API, which must respect `limit`")
        return page


class HttpSource(RangedSource):
    """``http_source: {url: "https://api/people", topic: shop.people, token: "${env:TOKEN}"}``.

    An offset is a cursor and the number of records up to it.
    """

    name = "http_source"
    api_version = 1
    Config = HttpSourceConfig
    config: HttpSourceConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        #: Number of records at the start of a run with `--available-now`.
        self._bound: int | None = None

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        yield "source http_source", f"{self.config.url}: {self._api.request_page(None, 1).total} records"

    def prepare_for_trigger_available_now(self) -> None:
        self._bound = self._api.request_page(None, 1).total

    def initial(self) -> Offset:
        return {"after": None, "count": 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Read the pages to find the cursor at the end of the batch, and discard the records."""
        most, end = limit or self.config.limit, dict(start)
        if self._bound is not None:
            most = min(most, self._bound - start["count"])
        for page in self._api.read_pages(start["after"], most):
            end = {"after": page.next, "count": end["count"] + len(page.items)}
        return end

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        rows = spark.range(0, 1, 1, 1).mapInArrow(
            partial(read_range, self._api, start, end), "value string, offset long"
        )
        return rows.selectExpr(
            *("cast(null as string) key", "value", "cast(null as array<struct<key: string, value: binary>>) headers"),
            *(f"{_literal(self.config.topic)} topic", "0 partition", "offset", "cast(null as timestamp) timestamp"),
        )

    def lag(self, context: SourceContext) -> Mapping[str, int]:
        if context.range is None:
            return {}
        _, end = context.range
        return {self.config.topic: self._api.request_page(end["after"], 1).total - end["count"]}

    def explain(self, error: BaseException) -> HeadraceError | None:
        match = CARRIED.search(full_text(error))
        return KINDS[match[1]](match[3], where=match[2], fix=match[4]) if match and match[1] in KINDS else None

    @property
    def _api(self) -> Api:
        return Api(self.config.url, self.config.token, self.config.page_size)


def read_range(api: Api, start: Offset, end: Offset, batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Yield an Arrow batch for each page of a range; runs on an executor, in ``mapInArrow``."""
    import pyarrow as pa

    for _ in batches:  # one batch with one row; Spark does not reuse a worker whose input was not read
        pass
    after, count = start["after"], start["count"]
    for page in api.read_pages(after, end["count"] - count):
        offsets = range(count + 1, count + len(page.items) + 1)
        yield pa.RecordBatch.from_pydict({"value": [*map(write_json, page.items)], "offset": [*offsets]})
        after, count = page.next, count + len(page.items)
    if (after, count) != (end["after"], end["count"]):
        what = f"the {end['count'] - start['count']} records up to {end['after']!r} have changed"
        raise FatalError(what, where=api.where, fix="start with a new checkpoint; records of the API must not change")


def write_json(value: Any) -> str:
    """Return a value as JSON, with numbers in their original notation."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {write_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_json, value)) + "]"
    return str(value) if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@hookimpl
def headrace_sources() -> dict[str, type[Source]]:
    """Return the sources by the name used under ``source:``."""
    return {"http_source": HttpSource}
