"""The declaration that ``init`` writes for a person to fill in."""

TEMPLATE = """# What is claimed, before anything is drawn. Numbers that matter are text: "0.05".
# proxyguard check tells whether this can be honoured; nothing is final before register.
format = 1
name = "my-audit"
purpose = "May releases of this mechanism stand in for the table when a classifier is trained?"
# disclosure = { digits = 3 }              # round what is published of the target; no guarantee

[target]                                   # sealed before anything else
table = "table.csv"                        # beside this folder, or in --data; never in it
reserve = { rows = 2000, seed = 1 }        # rows set aside before any outcome is read
# or: file = "target.parquet"              (with development.table)
# or: population = "all.parquet"           (with draw = { size = 2000, replace = true, seed = 1 })
# or: losses = "losses.npz"                (computed elsewhere)
design = "iid"                             # or { by = "site", weighting = "cluster" }, ...
outcome = "class"
positive = "yes"

[development]
validation = { fraction = "0.2", stratify = true, seed = 2 }

[procedure]                                # fit, calibrate, choose a decision threshold
library = ["logistic", "forest", "boosting"]
choose = { loss = "cost", false_negative = "5", thresholds = 501 }
seed = 2

[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"                          # compared with the source procedure
limit = "0.04"

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.05", round_up = "0.001" }

[[mechanism]]
name = "row bootstrap"
generator = "bootstrap"
draws = 60
seeds = { first = 1000 }
on_failure = "worst_loss"

[claim]
level = "mechanism"
reliability_target = "0.8"
alpha = "0.05"
beta = "0.05"
"""
