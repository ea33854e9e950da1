"""Site generators: the address, the anchors, the markup and the hidden pages of Hugo, Docusaurus and others."""
