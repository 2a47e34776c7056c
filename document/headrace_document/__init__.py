"""The pipeline file as text: YAML with its lines, and the references in its values."""
