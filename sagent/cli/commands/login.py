"""`sagent login`: a provider's key, or a login at GitHub for Copilot, entered, tested and kept."""

from collections.abc import Sequence

from sagent.cli.flags import Parser


def run_login(argv: Sequence[str]) -> int:
    """Enter, test and keep a provider's key; copilot is logged in at GitHub instead, with a code for any browser."""
    parser = Parser("login", run_login.__doc__)
    parser.add_argument("provider", nargs="?", default="", help="whose; without it there is a list to choose from")
    parser.add_argument("--host", default="", help="for copilot: your company's GitHub, as in company.ghe.com")
    parser.add_config()
    given = parser.parse_args(argv)
    from sagent.cli.login import run_login as log_in

    return log_in({"config": given.config}, provider=given.provider, host=given.host)
