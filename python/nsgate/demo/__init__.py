"""Two catalogs, a gateway in front of them, and a tour: ``nsgate demo``."""
