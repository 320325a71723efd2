"""The catalogue's tables, one file for each sort of program."""

from wharfinger.programs.entries.languages import LANGUAGES
from wharfinger.programs.entries.libraries import LIBRARIES
from wharfinger.programs.entries.services import SERVICES
from wharfinger.programs.entries.storage import STORAGE
from wharfinger.programs.entries.tools import TOOLS

__all__ = ["LANGUAGES", "LIBRARIES", "SERVICES", "STORAGE", "TOOLS"]
