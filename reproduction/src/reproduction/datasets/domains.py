"""Registered domains: the values that text columns may have, in the order that codes them.

They are taken from the descriptions that come with the data sets, never from rows, so an
encoding is the same whichever rows are reserved.
"""

from __future__ import annotations

from collections.abc import Mapping

Domains = Mapping[str, tuple[str, ...]]

UNKNOWN = "?"

SHOPPERS: Domains = {
    "Month": (
        "Jan", "Feb", "Mar", "Apr", "May", "June", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ),
    "VisitorType": ("New_Visitor", "Returning_Visitor", "Other"),
    "Weekend": ("FALSE", "TRUE"),
    "Revenue": ("FALSE", "TRUE"),
}  # fmt: skip

MAGIC: Domains = {"class": ("g", "h")}
RICE: Domains = {"Class": ("Cammeo", "Osmancik")}

MUSHROOM: Domains = {
    name: tuple(values.split())
    for name, values in {
        "class": "e p",
        "cap-shape": "b c x f s p o ?",
        "cap-surface": "i g y s h l k t w e ?",
        "cap-color": "n b g r p u e w y l o k ?",
        "does-bruise-or-bleed": "t f ?",
        "gill-attachment": "a x d e s p f ?",
        "gill-spacing": "c d f ?",
        "gill-color": "n b g r p u e w y l o k f ?",
        "stem-root": "b s c u e z r ?",
        "stem-surface": "i g y s h l k t w e f ?",
        "stem-color": "n b g r p u e w y l o k f ?",
        "veil-type": "p u ?",
        "veil-color": "n b g r p u e w y l o k f ?",
        "has-ring": "t f ?",
        "ring-type": "c e r g l p s z y m f ?",
        "spore-print-color": "n b g r p u e w y l o k ?",
        "habitat": "g l m p h u w d ?",
        "season": "s u a w ?",
    }.items()
}

GERMAN: Domains = {
    name: tuple(f"A{first + k}" for k in range(count))
    for name, first, count in (
        ("checking", 11, 4),
        ("history", 30, 5),
        ("savings", 61, 5),
        ("employment", 71, 5),
        ("personal", 91, 5),
        ("debtors", 101, 3),
        ("property", 121, 4),
        ("plans", 141, 3),
        ("housing", 151, 3),
        ("job", 171, 4),
        ("telephone", 191, 2),
        ("foreign", 201, 2),
    )
} | {"purpose": (*(f"A4{k}" for k in range(10)), "A410")}

BANK: Domains = {
    "job": (
        "admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur", "student",
        "blue-collar", "self-employed", "retired", "technician", "services",
    ),
    "marital": ("married", "divorced", "single"),
    "education": ("unknown", "secondary", "primary", "tertiary"),
    "default": ("no", "yes"),
    "housing": ("no", "yes"),
    "loan": ("no", "yes"),
    "contact": ("unknown", "telephone", "cellular"),
    "month": (
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ),
    "poutcome": ("unknown", "other", "failure", "success"),
    "y": ("no", "yes"),
}  # fmt: skip

ADULT: Domains = {
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
        "Without-pay", "Never-worked", "?",
    ),
    "education": (
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm",
        "Assoc-voc", "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate",
        "5th-6th", "Preschool",
    ),
    "marital-status": (
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
        "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
        "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
        "Armed-Forces", "?",
    ),
    "relationship": (
        "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried",
    ),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "native-country": (
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba",
        "Iran", "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico",
        "Portugal", "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan",
        "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand",
        "Yugoslavia", "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
        "?",
    ),
    "income": ("<=50K", ">50K"),
}  # fmt: skip

COMPAS: Domains = {
    "sex": ("Female", "Male"),
    "race": (
        "African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other",
    ),
    "c_charge_degree": ("F", "M"),
}  # fmt: skip
