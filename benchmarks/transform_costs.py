"""Cost of transforms: time of a batch with a transform, divided by the time of one that is decoded alone.

    python -m benchmarks.transform_costs --work FOLDER [--records 200000] [--rounds 5]

Each batch reads one file of Debezium envelopes, JSON without and with schemas, and appends its rows to a sink that reads and does not
store them. Rounds of all variants alternate, and the fastest counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.hot_paths import deliver_formats, parse_arguments, run

from headrace.sdk import Transform
from headrace_transforms.mask import Mask
from headrace_transforms.rename import Rename
from headrace_transforms.unwrap import Unwrap

# The sink appends, so that every change is read; it cannot remove rows.
_UNWRAP = Unwrap({"delete.tombstone.handling.mode": "drop"})
_RENAME = Rename(columns={"text1": "title"})
_HASH = Mask(columns={"text0": {"sha256": {"salt": "0123456789abcdef"}}})
_FOUR = Mask(
    columns={
        "text0": {"hmac_sha256": {"key": "0123456789abcdef"}},
        "text2": {"partial": {"suffix": 4}},
        "text3": {"replacement": "hidden"},
        "text4": {"truncate": 2},
    }
)
#: Transforms of each variant.
VARIANTS: dict[str, list[Transform]] = {
    "decoding alone": [],
    "unwrap": [_UNWRAP],
    "unwrap, rename": [_UNWRAP, _RENAME],
    "unwrap, rename, mask of one column": [_UNWRAP, _RENAME, _HASH],
    "unwrap, rename, mask of four columns": [_UNWRAP, _RENAME, _FOUR],
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of each variant for both formats."""
    options = parse_arguments(__doc__, arguments)
    for title, folder in deliver_formats(options):
        seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for turn in range(options.rounds):
            for name, transforms in VARIANTS.items():
                seconds[name].append(run(folder, turn, transforms, mode="append"))
        alone = min(seconds["decoding alone"])
        print(f"{title}: {alone:.2f} s")
        for name, times in seconds.items():
            print(f"  {name}: {min(times) / alone:.3f}x (slowest round {max(times) / alone:.3f}x)")


if __name__ == "__main__":
    main()
