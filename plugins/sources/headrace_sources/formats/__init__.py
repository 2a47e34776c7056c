"""How bytes become a struct."""
