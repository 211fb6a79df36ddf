"""The paper, read with the product's names: takes both, gives docs/reading-the-paper.md.

`page.toml` has the paper's tables of words, `places.toml` every part of the paper with what became
of it here, and `page.py` computes what can be computed and writes the page.
"""
