"""The command line: one file a group of verbs, thin over `proxyguard.audit`.

Takes what a person types, gives what they read; ``--json`` gives the same as plain values.
"""
