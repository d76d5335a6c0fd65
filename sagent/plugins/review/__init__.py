"""A review of changes: a model reads them and the code around them, writes nothing, and answers with findings.

`forge` calls the APIs of GitHub and GitLab, and `posting` puts the findings there as comments.
"""

from sagent.plugin import EVERYDAY, Command, Extra, Plugin, SlashCommand

plugin = Plugin(
    "review",
    "reviews of commits and of the working tree, on GitHub and GitLab too",
    commands=(
        Command(
            "review",
            "review a range of commits or the working tree, in CI as comments on a pull request",
            "sagent.plugins.review.command:run_review",
            group=EVERYDAY,
        ),
        Command(
            "solve", "solve the issue that a comment in CI asks for", "sagent.plugins.review.solve_command:run_solve"
        ),
    ),
    slash_commands=(SlashCommand("review", "sagent.plugins.review.slash:review"),),
    extras=(Extra("examples", "./examples.txt"),),
)
