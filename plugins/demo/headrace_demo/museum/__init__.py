"""Demo of the Museum of Modern Art's collection at three dates, written to two lakehouse tables."""
