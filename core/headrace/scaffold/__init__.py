"""A new plugin's project: ``headrace new``. ``templates`` has one for each kind, as it would be called ``example``."""
