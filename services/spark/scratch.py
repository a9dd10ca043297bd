"""Where Python workers keep files of their own: in Spark's local folders, of which Spark removes all at its end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
