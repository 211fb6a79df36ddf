"""The report's pictures: plain values in, a `Picture` of a few kinds of marks out.

A picture is made once. `svg.to_svg` puts it into a page, where classes give it the colours of
the reader's scheme; `figure.to_figure` draws it with matplotlib for those who have [plots].
"""
