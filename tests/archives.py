"""Archives, unpacked by any Python."""

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, place: Path) -> None:
    """Unpack an archive of ours; Python before 3.11.4 knows no filters, and 3.12 warns where none is named."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(place, filter="data")
    else:
        archive.extractall(place)
