"""The catalog's tables, one file for each sort of program."""

from wharfinger.catalog.entries.languages import LANGUAGES
from wharfinger.catalog.entries.libraries import LIBRARIES
from wharfinger.catalog.entries.services import SERVICES
from wharfinger.catalog.entries.storage import STORAGE
from wharfinger.catalog.entries.tools import TOOLS

__all__ = ["LANGUAGES", "LIBRARIES", "SERVICES", "STORAGE", "TOOLS"]
