"""Views as pages for human eyes: rounded numbers with units, in the order a reader asks."""

from nsysroof.report.pages.page import page, report_sections

__all__ = ["page", "report_sections"]
