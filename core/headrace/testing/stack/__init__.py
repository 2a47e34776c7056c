"""Real servers for tests, without containers and without root; and stand-ins for SQL Server and Kinesis, which cannot be had so.

Each is a class: ``with`` starts it on a free port of 127.0.0.1 and removes everything at the end::

    from headrace.testing.stack import Kafka, Record

    with Kafka() as kafka:
        kafka.produce("artists", Record(b"{}", key=b"1"))

``headrace.testing.stack.fixtures`` has them as pytest fixtures, and ``python -m headrace.testing.stack up`` starts them
for a person. What they are made of is fetched from Maven Central and npm, or built by Go, once per machine, into headrace's cache.
"""

from headrace.testing.stack.connect import Connect
from headrace.testing.stack.kafka import Kafka, Record, Sasl, Transaction
from headrace.testing.stack.kinesis import Kinesis
from headrace.testing.stack.mariadb import MariaDb
from headrace.testing.stack.metastore import Metastore
from headrace.testing.stack.msk import Msk
from headrace.testing.stack.postgres import Postgres
from headrace.testing.stack.registry import Registry
from headrace.testing.stack.s3 import S3
from headrace.testing.stack.server import Server
from headrace.testing.stack.sqlserver import SqlServer

__all__ = [
    "S3",
    "Connect",
    "Kafka",
    "Kinesis",
    "MariaDb",
    "Metastore",
    "Msk",
    "Postgres",
    "Record",
    "Registry",
    "Sasl",
    "Server",
    "SqlServer",
    "Transaction",
]
