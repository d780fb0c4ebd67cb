"""YAML texts, read by libyaml's parser: nine times as fast as the one in Python, and commands read dozens."""

from __future__ import annotations

from typing import Any

import yaml

# A build of PyYAML without libyaml has only the one in Python. Both make plain values and nothing else.
_Loader: type[yaml.CSafeLoader | yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(text: str) -> Any:
    """Return the value of the one document in `text`; `yaml.YAMLError` if it is not YAML."""
    return yaml.load(text, Loader=_Loader)
