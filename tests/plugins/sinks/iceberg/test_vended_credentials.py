"""REST catalog that issues expiring credentials for the files of its tables on S3.

Iceberg's server issues no credentials, and the S3 server knows no session tokens: proxies in front of both stand in for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.support.rest_proxy import RestProxy
from tests.support.s3_proxy import S3Proxy

from headrace import RetriableError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put
from headrace_sinks.iceberg import IcebergSink
from headrace_stack import S3, IcebergRest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

PEOPLE = "id int, name string"


class Vending:
    """Catalog whose storage credentials are session tokens, with the S3 server that accepts them until ``expire``."""

    def __init__(self, rest: RestProxy, s3: S3Proxy) -> None:
        self.rest, self.s3, self._numbers = rest, s3, count()
        rest.issue_credentials = self._issue

    def expire(self) -> None:
        """Let all tokens expire that S3 has received so far."""
        self.s3.expired_tokens |= self.s3.tokens

    def _issue(self) -> dict[str, str]:
        server = self.s3.s3
        keys = {"s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key}
        return {**keys, "s3.session-token": f"vended-{next(self._numbers)}"}

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the catalog. They contain no key of S3."""
        return {
            **self.rest.properties,
            "header.X-Iceberg-Access-Delegation": "vended-credentials",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.s3.endpoint_url,
            "s3.path-style-access": "true",
            "client.region": self.s3.s3.region,
        }


@pytest.fixture(scope="module")
def vending(s3: S3) -> Iterator[Vending]:
    s3.create_bucket("vended")
    with IcebergRest("s3://vended/silver") as server, RestProxy(server) as rest, S3Proxy(s3) as store:
        yield Vending(rest, store)


@pytest.fixture
def target(spark: SparkSession, vending: Vending) -> Target:
    sink = IcebergSink({"catalog": f"vended_{uuid4().hex[:8]}", "catalog.properties": vending.properties})
    for key, value in sink.session_conf().items():
        spark.conf.set(key, value)
    return Target(sink, Sessions(spark).of("one"))


def test_each_batch_uses_new_credentials(target: Target, vending: Vending) -> None:
    before = len(vending.s3.tokens)
    for number in range(1, 6):
        target.write(PEOPLE, put(number, number, f"n{number}"), put(number, 0, f"n{number}"))
        vending.expire()
    assert len(vending.s3.tokens) >= before + 5
    assert target.rows() == [{"id": 0, "name": "n5"}, *({"id": n, "name": f"n{n}"} for n in range(1, 6))]


def test_batch_that_outlives_its_credentials_is_repeated(target: Target, vending: Vending) -> None:
    target.write(PEOPLE, put(1, 1, "Arp"))
    batch = target.frame(PEOPLE, put(2, 2, "Höch"))
    vending.s3.uploads_before_expiry = 0
    error = target.refusal(lambda: target.apply(batch))
    assert isinstance(error, RetriableError), error
    assert "the storage credentials that the catalog issued expired before the batch was written: " in str(error)
    assert not target.apply(batch).skipped
    assert target.rows() == [{"id": 1, "name": "Arp"}, {"id": 2, "name": "Höch"}]
