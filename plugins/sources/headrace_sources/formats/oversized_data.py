"""Search for the file whose data does not fit into memory, after a task ran out of memory.

A few megabytes can decompress to gigabytes, and a few bytes can declare a length of gigabytes. The search needs little memory. It
runs only after an error, because it makes several calls to Java per block.
"""

from __future__ import annotations

from typing import Any

from headrace_sources.limits import INFLATED_BLOCK_BYTES, LINE_BYTES

#: Errors of tasks that read too much data at once, or of executors that ended for that reason.
ERRORS = (
    "OutOfMemoryError",
    "NegativeArraySizeException",
    "Too many bytes before",
    "ExecutorLostFailure",
    "Cannot grow BufferHolder",
)
_SYNC_BYTES, _HEADER_BYTES, _CHUNK = 16, 20, 1 << 20
#: Codec → Java class of its stream.
_STREAMS = {
    "deflate": "java.util.zip.InflaterInputStream",
    "zstandard": "com.github.luben.zstd.ZstdInputStream",
    "bzip2": "org.apache.commons.compress.compressors.bzip2.BZip2CompressorInputStream",
    "xz": "org.tukaani.xz.XZInputStream",
}


def is_oversized_avro(jvm: Any, conf: Any, file: str) -> bool:
    """Return whether a block of an Avro file decompresses to more than the limit, or declares more bytes than the file has."""
    path = jvm.org.apache.hadoop.fs.Path(file)
    length = path.getFileSystem(conf).getFileStatus(path).getLen()
    source = jvm.org.apache.avro.mapred.FsInput(path, conf)
    try:
        reader = jvm.org.apache.avro.file.DataFileReader(source, jvm.org.apache.avro.generic.GenericDatumReader())
        codec, at = reader.getMetaString("avro.codec"), reader.previousSync()
    finally:
        source.close()
    stream = path.getFileSystem(conf).open(path)
    try:
        while at < length:
            stream.seek(at)
            header = _read(jvm, stream, _HEADER_BYTES)
            _, first = _read_long(header, 0)
            size, second = _read_long(header, first)
            at += second
            if size > length - at:
                return True
            if codec not in (None, "null") and _inflated_size(jvm, stream, codec, at, size) > INFLATED_BLOCK_BYTES:
                return True
            at += size + _SYNC_BYTES
    finally:
        stream.close()
    return False


def has_long_line(jvm: Any, conf: Any, file: str) -> bool:
    """Return whether a line of a file, which may be compressed, has more bytes than the limit."""
    path = jvm.org.apache.hadoop.fs.Path(file)
    stream = path.getFileSystem(conf).open(path)
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path)
    lines = stream if codec is None else codec.createInputStream(stream)
    size = 0
    try:
        while chunk := _read(jvm, lines, _CHUNK):
            head, *ends = chunk.split(b"\n")
            if size + len(head) > LINE_BYTES:
                return True
            size = len(ends[-1]) if ends else size + len(head)
    finally:
        lines.close()
    return False


def _inflated_size(jvm: Any, stream: Any, codec: str, at: int, size: int) -> int:
    """Return the decompressed size of a block, or a number above the limit."""
    stream.seek(at)
    if codec == "snappy":  # the size is the start of the data
        return _read_long(_read(jvm, stream, _HEADER_BYTES), 0, signed=False)[0]
    if codec not in _STREAMS:
        return 0
    block = jvm.org.apache.commons.io.input.BoundedInputStream(stream, size)
    stream_class = jvm
    for part in _STREAMS[codec].split("."):
        stream_class = getattr(stream_class, part)
    inflated = stream_class(block, jvm.java.util.zip.Inflater(True)) if codec == "deflate" else stream_class(block)
    return int(jvm.org.apache.commons.io.IOUtils.skip(inflated, INFLATED_BLOCK_BYTES + 1))


def _read(jvm: Any, stream: Any, size: int) -> bytes:
    """Return up to ``size`` bytes."""
    part = jvm.org.apache.commons.io.input.BoundedInputStream(stream, size)
    return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(part))


def _read_long(data: bytes, at: int, *, signed: bool = True) -> tuple[int, int]:
    """Return a number of variable length, and the position after it. Avro's numbers are ``signed`` (zigzag)."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1) if signed else number, at
