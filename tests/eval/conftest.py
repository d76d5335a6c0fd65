"""Tests of `make eval`, which measures with the llama-server of the plugin local."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("sagent.plugins.local") is not None else ["test_*.py"]
