"""The columns of the files, in order, as the descriptions that come with them name them."""

from __future__ import annotations

MAGIC = (
    "fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha",
    "fDist", "class",
)  # fmt: skip
_SPAM_WORDS = (
    "make", "address", "all", "3d", "our", "over", "remove", "internet", "order", "mail",
    "receive", "will", "people", "report", "addresses", "free", "business", "email", "you",
    "credit", "your", "font", "000", "money", "hp", "hpl", "george", "650", "lab", "labs",
    "telnet", "857", "data", "415", "85", "technology", "1999", "parts", "pm", "direct", "cs",
    "meeting", "original", "project", "re", "edu", "table", "conference",
)  # fmt: skip
SPAMBASE = (
    *(f"word_freq_{word}" for word in _SPAM_WORDS),
    *(f"char_freq_{sign}" for sign in (";", "(", "[", "!", "$", "#")),
    *(f"capital_run_length_{kind}" for kind in ("average", "longest", "total")),
    "spam",
)
RICE = (
    "Area", "Perimeter", "Major_Axis_Length", "Minor_Axis_Length", "Eccentricity",
    "Convex_Area", "Extent", "Class",
)  # fmt: skip
CDC = (
    "Diabetes_binary", "HighBP", "HighChol", "CholCheck", "BMI", "Smoker", "Stroke",
    "HeartDiseaseorAttack", "PhysActivity", "Fruits", "Veggies", "HvyAlcoholConsump",
    "AnyHealthcare", "NoDocbcCost", "GenHlth", "MentHlth", "PhysHlth", "DiffWalk", "Sex", "Age",
    "Education", "Income",
)  # fmt: skip
SHOPPERS = (
    "Administrative", "Administrative_Duration", "Informational", "Informational_Duration",
    "ProductRelated", "ProductRelated_Duration", "BounceRates", "ExitRates", "PageValues",
    "SpecialDay", "Month", "OperatingSystems", "Browser", "Region", "TrafficType",
    "VisitorType", "Weekend", "Revenue",
)  # fmt: skip
MUSHROOM = (
    "class", "cap-diameter", "cap-shape", "cap-surface", "cap-color", "does-bruise-or-bleed",
    "gill-attachment", "gill-spacing", "gill-color", "stem-height", "stem-width", "stem-root",
    "stem-surface", "stem-color", "veil-type", "veil-color", "has-ring", "ring-type",
    "spore-print-color", "habitat", "season",
)  # fmt: skip
GERMAN = (
    "checking", "duration", "history", "purpose", "amount", "savings", "employment", "rate",
    "personal", "debtors", "residence", "property", "age", "plans", "housing", "credits", "job",
    "dependants", "telephone", "foreign", "class",
)  # fmt: skip
HEART = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal",
)  # fmt: skip
BANK = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact",
    "day", "month", "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
COMPAS = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "c_charge_degree", "two_year_recid",
)  # fmt: skip
GMSC = (
    "SeriousDlqin2yrs", "RevolvingUtilizationOfUnsecuredLines", "age",
    "NumberOfTime30-59DaysPastDueNotWorse", "DebtRatio", "MonthlyIncome",
    "NumberOfOpenCreditLinesAndLoans", "NumberOfTimes90DaysLate",
    "NumberRealEstateLoansOrLines", "NumberOfTime60-89DaysPastDueNotWorse",
    "NumberOfDependents",
)  # fmt: skip
AUSTRALIAN = (*(f"A{k}" for k in range(1, 15)), "class")
MAMMOGRAPHIC = ("BI-RADS", "Age", "Shape", "Margin", "Density", "Severity")
COVERTYPE = (
    "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways", "Hillshade_9am",
    "Hillshade_Noon", "Hillshade_3pm", "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{k}" for k in range(1, 5)), *(f"Soil_Type{k}" for k in range(1, 41)),
    "Cover_Type",
)  # fmt: skip
TAIWAN = (
    "ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE",
    "PAY_0", *(f"PAY_{k}" for k in range(2, 7)), *(f"BILL_AMT{k}" for k in range(1, 7)),
    *(f"PAY_AMT{k}" for k in range(1, 7)), "default.payment.next.month",
)  # fmt: skip
