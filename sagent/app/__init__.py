"""The composition root, which builds an Agent from Settings. The only package that knows every part by name."""

from sagent.app.assembly import open_agent, policy_of
from sagent.app.models import Choice, choose_model

__all__ = ["Choice", "choose_model", "open_agent", "policy_of"]
