"""The picture of a job's memory against its limit over time.

`story` holds the values, `terminal.render` draws one as lines of text, `svg.render` draws
several as one file. All of it is pure: values in, text out.
"""

from outgrow.picture.story import Kind, Limit, Mark, Pause, Point, Story

__all__ = ["Kind", "Limit", "Mark", "Pause", "Point", "Story"]
