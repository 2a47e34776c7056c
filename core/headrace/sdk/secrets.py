"""Secret providers, and what they were told in the last minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Gives the value, or raises LookupError with a text that says where it looked.
SecretProvider = Callable[[str], str]

#: Seconds for which an answer is kept.
KEPT_SECONDS = 300.0

_kept: dict[str, tuple[float, str]] = {}
_lock = threading.Lock()


def keep_answer(question: str, ask: Callable[[], str]) -> str:
    """What a service answered in the last five minutes, else what it answers now: ten keys of one secret are one question.

    A login that is refused makes headrace forget all answers, and ask anew.
    """
    with _lock:
        until, answer = _kept.get(question, (0.0, ""))
        if time.monotonic() >= until:
            answer = ask()
            _kept[question] = (time.monotonic() + KEPT_SECONDS, answer)
        return answer


def forget_answers() -> None:
    """The next questions are asked."""
    with _lock:
        _kept.clear()
