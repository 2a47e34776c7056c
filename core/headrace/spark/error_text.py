"""Text of errors from Spark, Python and the JVM."""

from __future__ import annotations

import re

_MISSING_FILE = re.compile(
    r"Path does not exist: (\w+:.+?)\.?$|File does not exist: (\S+)|File (\w+:.+?) does not exist"
    r"|No such file or directory: (\w+:\S+)",
    re.MULTILINE,
)
#: Spark's class of an error, before its message.
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
#: Code that Spark 4 adds to its messages, which would become a part of the name or the value before it.
_SQL_STATE = re.compile(r"\.? SQLSTATE: [0-9A-Z]{5}\b")
_QUOTED = re.compile(r"'(?:[^'\n]|'')*'|\"[^\"\n]*\"")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
#: Regular expression of the text before the message of ``raise_error``, on Spark 3.5 and 4.
RAISED = r"RuntimeException: |\[USER_RAISED_EXCEPTION\] "


def causes(error: BaseException) -> list[BaseException]:
    """Return an error and the chain of its causes in Python."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return chain


def full_text(error: BaseException) -> str:
    """Return the text of an error and all its causes, including those in the JVM."""
    texts = []
    for link in causes(error):
        texts.append(str(link))
        java = getattr(link, "java_exception", None)
        seen = 0
        while java is not None and seen < 20:
            texts.append(str(java.toString()))
            java, seen = java.getCause(), seen + 1
    return _SQL_STATE.sub("", "\n".join(texts))


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the stack traces of Python and Java."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error)
    return _SQL_STATE.sub("", text.strip().splitlines()[0]) if text.strip() else type(error).__name__


def is_of_task(error: BaseException) -> bool:
    """Return whether Spark, Java or an executor raised an error while rows were read. The analysis of a plan reads no row."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    return isinstance(error, Py4JError | PySparkException) and not isinstance(error, AnalysisException | ParseException)


def find_class(error: BaseException) -> str:
    """Return Spark's class of an error, such as CONVERSION_INVALID_INPUT; the name of the exception if it has none."""
    found = _ERROR_CLASS.search(full_text(error))
    java = getattr(error, "java_exception", None)
    return found[1] if found else str(java.getClass().getName()) if java is not None else type(error).__name__


def find_python_error(text: str) -> str | None:
    """Return the last line of a Python traceback: the error of a Python function that an executor called."""
    match = _TRACEBACK.search(text)
    return match[1].strip() if match else None


def text_after_raised(mark: str, text: str) -> str | None:
    """Return the text after a mark that a task raised with ``raise_error``; None without one.

    Errors of Spark may quote a plan, which has the mark although no task raised it.
    """
    match = re.search(f"(?:{RAISED}){re.escape(mark)}", text)
    return text[match.end() :] if match else None


def find_missing_file(error: BaseException) -> str | None:
    """Return the file or folder that an error reports as missing."""
    match = _MISSING_FILE.search(full_text(error))
    return next(filter(None, match.groups())) if match else None


def hide_values(text: str) -> str:
    """Return an error text; without quoted texts if a message of Spark is in it, because Spark quotes values of rows."""
    found = _ERROR_CLASS.search(text)
    return text if found is None else text[: found.end()] + _QUOTED.sub("'…'", text[found.end() :])
