"""How far to trust an answer: expected accuracy, unknown images, unfamiliar tasks, explanations.

Imports anyshot.classifier.heads.
"""
