"""Settings: defaults < the person's file < a project's < environment < flags. Nothing else reads the environment."""

from sagent.config.layers import load
from sagent.config.report import Row, show
from sagent.config.settings import Address, CustomProvider, Settings

__all__ = ["Address", "CustomProvider", "Row", "Settings", "load", "show"]
