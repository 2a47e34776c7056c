"""SIGINT and SIGTERM."""

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
def test_the_first_signal_asks_and_the_second_interrupts(number: signal.Signals) -> None:
    before, stop = signal.getsignal(number), Stop()
    with stop.on_signals():
        send(number)
    assert stop.requested_by == number.name
    with stop.on_signals(), pytest.raises(KeyboardInterrupt):
        send(number)
    assert signal.getsignal(number) is before


@BOTH
def test_outside_a_run_a_signal_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        send(number)
    assert signal.getsignal(number) is before


def test_an_error_that_an_interrupt_became_is_an_interrupt() -> None:
    def work() -> None:
        try:
            send(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("what py4j makes of it") from None

    with pytest.raises(KeyboardInterrupt), interruptible():
        work()


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="bad"), interruptible():
        raise ValueError("bad")


def test_pysparks_own_handler_is_replaced() -> None:
    with interruptible():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        listen_again()
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_elsewhere_than_in_the_main_thread_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with interruptible():
            listen_again()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_jvm_that_is_started_ignores_sigterm_and_other_processes_do_not() -> None:
    asks = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"]
    with interruptible():
        jvm = subprocess.run(asks, capture_output=True, text=True, check=True, preexec_fn=lambda: None)
        other = subprocess.run(asks, capture_output=True, text=True, check=True)
    assert (jvm.stdout, other.stdout) == ("True\n", "False\n")
