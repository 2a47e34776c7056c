"""Division of a batch's limits among streams and shards."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from headrace_sources.kinesis.fetch_shares import FetchLimit, FetchShares, divide

WANTED = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2), st.lists(st.integers(0, 1000), min_size=1, max_size=5), min_size=1
)


@settings(max_examples=60)
@given(st.integers(0, 5000), WANTED)
def test_a_limit_is_divided_completely_and_equally(limit: int, wanted: dict[str, list[int]]) -> None:
    parts = divide(limit, wanted)
    wishes, shares = ({name: sum(of) for name, of in found.items()} for found in (wanted, parts))
    assert all(part <= wish for name in wanted for part, wish in zip(parts[name], wanted[name], strict=True)), (
        "more than wanted"
    )
    assert sum(shares.values()) == min(limit, sum(wishes.values())), "an unused part of a share goes to the others"
    equal = limit // len(wanted)
    assert all(shares[name] >= min(wishes[name], equal) for name in wanted), "an equal share is guaranteed"
    limited = [shares[name] for name in wanted if shares[name] < wishes[name]]
    assert max(limited, default=0) - min(limited, default=0) <= 1, "limited streams get the same"


@settings(max_examples=40)
@given(
    rest=st.dictionaries(
        st.sampled_from("abcdef"), st.lists(st.integers(1, 20_000), min_size=1, max_size=3), min_size=1
    ),
    limit=st.integers(4_000, 20_000),
)
def test_a_huge_stream_does_not_hold_up_the_others(rest: dict[str, list[int]], limit: int) -> None:
    """Each shard is read as fast as with an equal share, whatever waits in other streams."""
    shares, most = FetchShares(FetchLimit(100_000, 1 << 40)), FetchLimit(limit, 1 << 40)
    needed = {name: -(-max(of) // (limit // len(rest) // len(of))) for name, of in rest.items()}
    for batch in range(1, max(needed.values()) + 1):
        parts = shares.divide(most, {name: [f"{n}" for n in range(len(of))] for name, of in rest.items()})
        assert sum(part.records for of in parts.values() for part in of) <= limit + 18, "one record per shard at least"
        for name, of in rest.items():
            for n, part in enumerate(parts[name]):
                read = min(of[n], part.records)
                of[n] -= read
                shares.note(name, f"{n}", FetchLimit(read, read), is_at_end=not of[n])
            assert batch < needed[name] or not any(of)


def test_records_and_bytes_have_limits_of_their_own() -> None:
    shares = FetchShares(FetchLimit(100, 64))
    (orders,), (lines,) = shares.divide(FetchLimit(60, 1000), {"orders": ["0"], "lines": ["0"]}).values()
    assert (orders, lines) == (FetchLimit(30, 64), FetchLimit(30, 64))
    # More shards than records: each shard may read one.
    found = shares.divide(FetchLimit(1, 1), {"orders": ["0", "1"], "lines": ["0"]})
    assert found == {"orders": [FetchLimit(1, 1)] * 2, "lines": [FetchLimit(1, 1)]}


def test_unused_shares_go_to_the_streams_with_a_backlog() -> None:
    shares = FetchShares(FetchLimit(1_000_000, 1 << 40))
    names = {f"stream {n}": ["0"] for n in range(50)}
    limit = FetchLimit(1_000_000, 1 << 40)
    assert {part.records for (part,) in shares.divide(limit, names).values()} == {20_000}
    for name in names:
        shares.note(name, "0", FetchLimit(10, 10), is_at_end=name != "stream 7")
    found = {name: part.records for name, (part,) in shares.divide(limit, names).items()}
    assert found.pop("stream 7") == 1_000_000 - 49 * 1_000
    assert set(found.values()) == {1_000}
    # A quiet stream with new records gets an equal share in the next batch.
    shares.note("stream 3", "0", FetchLimit(1_000, 1_000), is_at_end=False)
    found = {name: part.records for name, (part,) in shares.divide(limit, names).items()}
    assert found["stream 3"] == found["stream 7"] == (1_000_000 - 48 * 1_000) // 2
