"""The parts of an HTML report; ``nsysroof.report.to_html`` puts them together."""
