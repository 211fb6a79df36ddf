"""Canonical bytes, under the name by which the steps of an audit know them."""

from proxyguard.documents.canonical import LARGEST, canonical_bytes, digest

__all__ = ["LARGEST", "canonical_bytes", "digest"]
