"""A certified audit as pages: Markdown and HTML from plain values, the same bytes each time.

Takes the certificate's statement, the ledger and the evidence, gives text.
"""
