"""Limits for records, files and writer schemas.

A record determines numbers, lengths, counts and depths: exponents, scales, names, schema ids, levels, sizes of blocks. Each of
them has a limit here, far above the values that databases and their connectors write. A record above a limit becomes a dead letter,
and a file above a limit is rejected, so that time, memory and requests are bounded.

These limits are in the core, because they apply to every source and format, or also to SQL: the size of a record
(``max.message.bytes``), the number of plans of one batch (``headrace.engine.read.schema_replanning``), and the exponents and the
length of numbers in texts (``headrace.sdk.sql``).
"""

from __future__ import annotations

# Numbers.

#: Bytes of the unscaled value of a decimal without a fixed precision: 9,863 digits. Computing the digits takes quadratic time.
DECIMAL_BYTES = 4096
#: Decimal places of a decimal without a fixed precision, and zeros that a negative scale adds. PostgreSQL has at most 16,383.
DECIMAL_SCALE = 20_000
#: Numbers above a double in a JSON record that are told from its other large numbers.
INFINITE_NUMBERS = 20

# Levels, columns and names.

#: Levels of objects and lists in a JSON record. Spark's parser and all code that walks its type recurse once per level.
JSON_LEVELS = 100
#: Levels of structs, lists and maps in a writer schema. Larger schemas exceed Spark's plans and Java's stack.
SCHEMA_LEVELS = 50
#: Columns of a writer schema, and of all schemas in the JSON records of a topic, including nested ones.
SCHEMA_COLUMNS = 20_000
#: New columns that a batch of JSON without schemas adds to a known topic. More new columns come from damaged names.
NEW_COLUMNS = 200
#: Columns of a new topic of JSON without schemas, including nested ones.
FIRST_COLUMNS = 5_000
#: Characters of a field name in JSON without schemas. Databases allow at most 255.
NAME_CHARACTERS = 255
#: Invalid field names of one batch that a plan lists. If there are more, a record with any unknown name is rejected.
LISTED_NAMES = 500

# Writer schemas.

#: Unknown ids that a batch requests from the registry for one topic, the ids with the most records first. Records with further unknown
#: ids are dead letters without a request.
MISSING_SCHEMAS = 100
#: Writer schemas of one topic. Each is stored in the checkpoint and is part of each plan. Records of further schemas are dead letters.
WRITER_SCHEMAS = 1000
#: Schemas to which a schema in a registry may refer, directly or through other schemas.
SCHEMA_REFERENCES = 100
#: Characters of the schema in a JSON record. A schema of a thousand columns has a few hundred thousand characters.
EMBEDDED_SCHEMA_CHARACTERS = 1 << 20

# Descriptions of dead letters.

#: Columns that the plan of dead letters examines for one topic, including nested ones. It begins with those of the newest schema.
DESCRIBED_FIELDS = 2000

# Compressed data.

#: Decompressed bytes of a record that AWS Glue's serializer compressed. Longer values are truncated and cannot be decoded.
#: Also the bytes of all records in an aggregate of the Kinesis Producer Library, with their keys.
INFLATED_RECORD_BYTES = 100 << 20
#: Decompressed bytes of one block of an Avro file. Writers end a block after some ten kilobytes, or after one record.
INFLATED_BLOCK_BYTES = 256 << 20
#: Bytes of a line of a JSON file that a task may fail to read. ``max.message.bytes`` applies to lines that it can read.
LINE_BYTES = 256 << 20
#: Bytes of an Avro string or byte array. A damaged record may declare 2 GB, which Avro's reader allocates before it reads.
AVRO_VALUE_BYTES = 100 << 20
#: Items of an Avro list or map.
AVRO_ITEMS = 10_000_000
