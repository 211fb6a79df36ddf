"""Fitted models: three classes that store themselves as numbers, read themselves back and predict.

Takes a table of features, gives probabilities of classes. A logistic regression is a
`LinearModel`, a forest or boosted trees are a `TreeModel`, naive Bayes of word counts is a
`BayesModel`. None of them needs scikit-learn, which fits them. Pipelines of others are stored
with skops (`stored`).
"""
