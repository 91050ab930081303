"""Translations and losses to scores."""
