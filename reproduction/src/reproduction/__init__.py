"""The paper, done again with ProxyGuard: its simulations, its data sets and its audits.

Takes the published figures, gives ours beside them. A package of its own, so that whoever
installs the product does not install a paper; it depends on `proxyguard`, never the other way.
"""
