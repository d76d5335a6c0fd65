"""A model as a node has it is the model that it is."""

from typing import cast

from sagent.model import is_same_model
from sagent.plugins.mesh.barrier import Barrier, KeptModel
from sagent.providers import Anthropic


def test_node_model_equals_itself() -> None:
    one, again = (Anthropic.from_key("k" * 20, base_url="http://127.0.0.1:9/v1") for _ in "ab")
    kept = KeptModel(one.model("m"), cast("Barrier", None))  # only a call needs it
    assert is_same_model(kept, again.model("m"))
    assert not is_same_model(kept, again.model("n"))
