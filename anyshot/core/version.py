"""The package's version, from its installed metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("anyshot")
except PackageNotFoundError:  # run from a source tree that was not installed
    VERSION = "0+unknown"

__version__ = VERSION
