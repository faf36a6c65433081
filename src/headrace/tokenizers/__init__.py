"""Tokenizers of others, for those who ask for exact counts. Imported only then: the extra `tokens`."""
