"""Meta-training of the mixture and of the confidence model on features of many image sets."""
