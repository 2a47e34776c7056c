"""What makes a table true to a history: one change per key, removed keys remembered, epochs."""
