"""Fitted models: four classes that store themselves as numbers, read themselves back and predict.

Takes a table of features, gives probabilities of classes or numbers. A logistic regression is a
`LinearModel`, a forest or boosted trees are a `TreeModel`, naive Bayes of word counts is a
`BayesModel`, and the learner `default` fits an `AdditiveModel`. None of them needs scikit-learn,
which fits them. Pipelines of others are stored with skops (`stored`).
"""
