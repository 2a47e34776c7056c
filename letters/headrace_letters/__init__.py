"""Dead letters: records that cannot become a row, what becomes of them, and how many are too many."""
