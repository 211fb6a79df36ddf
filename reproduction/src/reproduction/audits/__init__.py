"""The paper's audits of real data: a declaration each, and what writes docs/audits.md.

`reproduce` runs them; `published` has the paper's figures, `analyse` what is computed from our
folders, `document` and `details` the words; the other files make the tables that audits read.
"""
