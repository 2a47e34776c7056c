"""Oracle: expected tables, dead letters and counts of generated pipelines, from a model that shares no code with headrace.

``grammar`` draws a pack from a seed: the configuration of one pipeline and its cases, as plain JSON. ``encode`` turns the
records of a pack into bytes. ``model`` decodes these bytes and applies them, ``runner`` runs the same bytes through headrace,
and ``minimize`` shrinks a pack whose results differ. ``cases/`` keeps minimized packs.
"""
