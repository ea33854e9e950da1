"""The page that shows a corpus: searches with their reasons, documents as they were cut, questions that were asked."""
