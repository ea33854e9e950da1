"""Git: a hardened command and the trees that it reads."""
