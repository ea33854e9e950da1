"""Documentation pages: sections of Markdown, as the site's generator shows them."""
