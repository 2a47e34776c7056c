"""Registry of plugins: registration through entry points and hooks, and validation of what they register."""
