"""A stored regression of numbers as the pipeline of scikit-learn that it was read from."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyguard.models.learned import LinearModel


def as_pipeline(model: LinearModel) -> Pipeline:
    """Return scikit-learn's scaler and liblinear regression with the numbers of a model."""
    scaler, regression = StandardScaler(), LogisticRegression(solver="liblinear", max_iter=500)
    scaler.mean_, scaler.scale_ = model.mean, model.scale
    scaler.var_, scaler.n_samples_seen_ = model.scale**2, 2
    regression.coef_, regression.intercept_ = model.coefficients, model.intercept
    regression.classes_ = model.classes_
    scaler.n_features_in_ = regression.n_features_in_ = model.mean.size
    return make_pipeline(scaler, regression)
