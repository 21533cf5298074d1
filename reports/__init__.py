"""A document drawn: terminal, Markdown, JSON and one self-contained HTML page.

Everything here reads ``profiler.model`` only. Nothing is computed that the document does not hold, apart from rounding.
"""
