"""One module per format; they render and compute nothing.

``base.renderer_named`` and ``base.renderer_for`` find the format, ``views`` holds what can be
rendered, ``saved.load_report`` reads a report back.
"""
