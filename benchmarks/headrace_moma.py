"""Variant of headrace: a pipeline that keeps one table equal to a folder of change events.

    python -m benchmarks.headrace_moma VARIANT --bronze FOLDER --folder FOLDER --results FILE

VARIANT: headrace-iceberg-mor, headrace-hudi-mor or headrace-delta
"""

from pathlib import Path

from benchmarks.run import KEY, SPARK, STEPS, Run

from headrace import Pipeline


def pipeline(variant: str, folder: Path) -> Pipeline:
    """Return the pipeline of a variant, from the files in ``folder/landing`` to the table in ``folder/lake``."""
    lake = str(folder / "lake")
    sinks = {
        "headrace-iceberg-mor": {"iceberg": {"warehouse": lake, "mode": "upsert", "table.type": "merge-on-read"}},
        "headrace-hudi-mor": {"hudi": {"path": lake, "mode": "upsert", "table.type": "MERGE_ON_READ"}},
        "headrace-delta": {"delta": {"path": lake, "mode": "upsert"}},
    }
    return Pipeline.from_dict(
        {
            "name": "moma",
            "source": {"files": {"path": str(folder / "landing"), "format": "avro"}},
            "tables": [{"source": "moma.public.artworks", "key": KEY, "target": "db.artworks"}],
            "transforms": [{"unwrap": {}}],
            "sink": sinks[variant],
            "checkpoint": str(folder / "checkpoint"),
            "spark": SPARK,
        }
    )


def main() -> None:
    """Apply the three steps in one session."""
    run = Run.from_arguments(Run.command_line().parse_args())
    run.landing.mkdir(parents=True)
    moma = pipeline(run.variant, run.folder)
    spark = moma.session()
    run.note_start()
    for step in STEPS:
        run.land("envelope", step)
        with run.time_step(step):
            moma.run(spark)
    spark.stop()


if __name__ == "__main__":
    main()
