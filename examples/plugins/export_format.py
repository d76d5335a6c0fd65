"""An export format: `sagent export --format chat` writes what was said as a list of roles and contents."""

import json

from sagent.plugin import ExportFormat, Plugin
from sagent.plugins.exports.exported import Exported, Exporting
from sagent.session.blobs import BlobDirectory
from sagent.session.folds import history
from sagent.session.log import read_log


def write(exporting: Exporting) -> Exported:
    """Write the conversation of the first agent, without what looks like a secret."""
    entries, blobs = read_log(exporting.session / "root.jsonl"), BlobDirectory(exporting.session / "blobs")
    said = [
        {"role": message.role, "content": exporting.redaction.text(message.content)}
        for message in history(entries, blobs.get)
        if message.content
    ]
    exporting.put([json.dumps({"messages": said}, indent=1).encode() + b"\n"])
    return Exported(exporting.redaction.count)


plugin = Plugin(
    "export-format",
    "exports conversations as roles and contents",
    export_formats=(ExportFormat("chat", "roles and contents, as JSON", ":write", suffix="json"),),
)
