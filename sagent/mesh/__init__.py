"""Agents on other machines: a bus between them, their cards, and what it keeps. Needs sagent[mesh]."""
