"""Meta-training of the heads, the mixture and the confidence model on features of many data sets.

`build.build_learner` does all of it. Imports anyshot.core, anyshot.data and the other parts of
anyshot.classifier.
"""
