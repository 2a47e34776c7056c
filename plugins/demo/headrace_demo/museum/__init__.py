"""The Museum of Modern Art's collection at three real dates, into two lakehouse tables."""
