"""Time zone of sessions with Hudi tables."""

from __future__ import annotations

import pytest

from headrace.runtime.java.jvm import JAVA_OPTIONS
from headrace.runtime.session.session_builder import EXECUTOR_JAVA_OPTIONS, complete_session_conf
from headrace_sinks.hudi import HudiSink


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_session_creates_instants_in_utc_by_default(master: str) -> None:
    """By default Hudi creates instants in local time: two time zones, or the end of summer time, reverse the order of commits."""
    conf = complete_session_conf([HudiSink(path="lake")], {"spark.master": master}, [])
    assert all("-Duser.timezone=UTC" in conf[options].split() for options in (JAVA_OPTIONS, EXECUTOR_JAVA_OPTIONS))
    own = "-Duser.timezone=Asia/Tokyo"
    conf = complete_session_conf([HudiSink(path="lake")], {"spark.master": master, JAVA_OPTIONS: own}, [])
    zones = [option for option in conf[JAVA_OPTIONS].split() if option.startswith("-Duser.timezone")]
    assert zones == ["-Duser.timezone=UTC", own]  # Java uses the later one.
