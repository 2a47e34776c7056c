from __future__ import annotations

from hypothesis import given, strategies as st

from headrace.sdk.sink import Batch
from headrace_sinks.delta.batch_versions import BatchVersion

#: Batches of one pipeline. Numbers repeat, as after the restore of an older checkpoint. Refreshes of views have large numbers and no digest.
BATCHES = st.builds(
    lambda number, digest: Batch("pipeline", number, "append", digest=digest),
    st.integers(0, 3) | st.integers(0, 2**31 - 1),
    st.sampled_from(["", "1", "2"]),
) | st.builds(lambda number: Batch("pipeline", number, "append"), st.integers(1_790_000_000_000, 1_790_000_000_003))


@given(st.lists(BATCHES, min_size=1, max_size=20))
def test_versions_increase_and_contain_the_number_and_fit_into_a_long(batches: list[Batch]) -> None:
    last: BatchVersion | None = None
    for batch in batches:
        version = BatchVersion.after(last, batch)
        assert (int(last) if last else -1) < int(version) < 2**63
        assert version.number == batch.id % 2**31
        assert BatchVersion.parse(int(version)) == version
        last = version


@given(BATCHES, BATCHES)
def test_stored_version_answers_like_the_mark_of_its_batch(stored: Batch, batch: Batch) -> None:
    version, is_applied = BatchVersion.after(None, stored), batch.is_applied([stored.mark])
    # The order of a large number and another one is unknown, and not needed.
    is_large = max(stored.id, batch.id) >= 2**31
    assert version.is_applied(batch) == is_applied or (is_large and not version.is_applied(batch) and not is_applied)


def test_batches_after_an_older_checkpoint_may_be_in_the_table() -> None:
    batches = [Batch("pipeline", number, "append", digest=digest) for number, digest in ((2, "1"), (0, "2"), (1, "2"))]
    version: BatchVersion | None = None
    for batch in batches[:2]:
        version = BatchVersion.after(version, batch)
    assert version is not None
    assert version.is_applied(batches[1]) is True
    assert version.is_applied(batches[2]) is None
