"""Report of the secrets that were taken out of what is shown."""

from sagent.cli.render import report
from sagent.transcript.redaction import Redaction


def report_secrets(redaction: Redaction) -> None:
    """Say on standard error which kinds were taken out, if any."""
    if redaction.count:
        report(f"secrets taken out, recognized by their form: {redaction.kinds}; read the rest before you share it")
