"""What was promised, in which order: canonical values, digests, the ledger.

Takes the values of an audit's steps, gives a record in which no step can be moved,
repeated or rewritten unnoticed.
"""
