"""What a run leaves behind: result.json, report.md and report.html, and the table while it runs."""
