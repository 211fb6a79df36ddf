"""The audit itself: each step of the protocol on one folder, in order.

Takes a declaration, gives a certificate that a stranger can check. Every step reads the
ledger first, writes its files, and records itself last, so that a kill at any instant
leaves an audit that goes on from its last recorded step.
"""
