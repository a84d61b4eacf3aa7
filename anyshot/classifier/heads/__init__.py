"""Classification heads on frozen features, and the mixture that combines them.

`learner.Learner` fits all heads to a task; `support_set.SupportSet` is the task as they see it.
Imports anyshot.core only.
"""
