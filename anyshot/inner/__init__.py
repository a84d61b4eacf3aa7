"""What happens inside a task: the update rule (:mod:`.update`) and its fast, hand-derived twin (:mod:`.engine`)."""

from anyshot.inner.update import Inner, adapt, adapt_many, predict_many, query_loss, update, weighted_loss

__all__ = ["Inner", "adapt", "adapt_many", "predict_many", "query_loss", "update", "weighted_loss"]
