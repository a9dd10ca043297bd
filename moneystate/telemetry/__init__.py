"""What a command tells other systems about its work: events of OpenLineage, traces of OpenTelemetry.

Both are off by default. The modules of this package are the only ones that import the two libraries, and they do so
when a command switches them on.
"""
