"""Real servers for tests, without containers and without root; and stand-ins for SQL Server and Kinesis, which cannot be had so.

Each is a class: ``with`` starts it on a free port of 127.0.0.1 and removes everything at the end::

    from headrace_stack import Kafka, Record

    with Kafka() as kafka:
        kafka.produce("artists", Record(b"{}", key=b"1"))

``headrace_stack.fixtures`` has them as pytest fixtures, and ``python -m headrace_stack up`` starts them
for a person. What they are made of is fetched from Maven Central and npm, or built by Go, once per machine, into headrace's cache.
"""

from headrace_stack.kinesis import Kinesis
from headrace_stack.msk import Msk
from headrace_stack.s3 import S3
from headrace_stack.servers.apicurio import SchemaRegistry
from headrace_stack.servers.kafka import Kafka, Record, Sasl, Transaction
from headrace_stack.servers.kafka_connect import Connect
from headrace_stack.servers.mariadb import MariaDb
from headrace_stack.servers.metastore import Metastore
from headrace_stack.servers.postgres import Postgres
from headrace_stack.servers.server import Server
from headrace_stack.sqlserver import SqlServer

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
    "Sasl",
    "SchemaRegistry",
    "Server",
    "SqlServer",
    "Transaction",
]
