"""HTML pages of reports: one set of templates, one style."""
