"""Handlers of SIGINT and SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from headrace.cli.signals import Stop, interruptible, listen_again

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@BOTH
def test_first_signal_requests_a_stop_and_second_interrupts(number: signal.Signals) -> None:
    before, stop = signal.getsignal(number), Stop()
    with stop.on_signals():
        send(number)
    assert stop.requested_by == number.name
    with stop.on_signals(), pytest.raises(KeyboardInterrupt):
        send(number)
    assert signal.getsignal(number) is before


@BOTH
def test_signal_interrupts_outside_a_run(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        send(number)
    assert signal.getsignal(number) is before


def test_error_caused_by_an_interrupt_is_an_interrupt() -> None:
    def work() -> None:
        try:
            send(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("what py4j makes of it") from None

    with pytest.raises(KeyboardInterrupt), interruptible():
        work()


def test_other_errors_are_unchanged() -> None:
    with pytest.raises(ValueError, match="bad"), interruptible():
        raise ValueError("bad")


def test_handler_of_pyspark_is_replaced() -> None:
    with interruptible():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        listen_again()
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_handlers_are_unchanged_outside_the_main_thread() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with interruptible():
            listen_again()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_jvm_ignores_sigterm_and_other_processes_do_not() -> None:
    command = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"]
    with interruptible():
        jvm = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: None)
        other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (jvm.stdout, other.stdout) == ("True\n", "False\n")
