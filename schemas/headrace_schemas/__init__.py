"""How the types of several records become one."""
