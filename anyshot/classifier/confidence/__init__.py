"""How far to trust a prediction: expected accuracy, unknown images and explanations."""
