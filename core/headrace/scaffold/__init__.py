"""Projects for new plugins: ``headrace new``. ``templates`` has a plugin of each kind with the name ``example``."""
