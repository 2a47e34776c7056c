"""What a plugin is: one module per kind."""
