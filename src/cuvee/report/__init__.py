"""One HTML page of a run, or of a standalone command."""

from cuvee.report.command import standalone_page
from cuvee.report.page import write_report

__all__ = ["standalone_page", "write_report"]
