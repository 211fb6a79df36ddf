"""The paper's simulations and planning tables, each a declaration and one pure function.

Takes a study's name, gives rows that stand beside the published figures; seeding, blocks,
parallel runs, tables and the verdict are shared.
"""
