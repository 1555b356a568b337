"""Traces and metrics of turns, by OpenTelemetry's conventions for generative AI, from committed records alone.

* `names` — what spans, attributes and metrics are called
* `reading` — a settled turn, out of its log
* `spans`, `measures` — pure: the spans of a turn, and what is counted of it
* `content` — what was asked and answered, where the operator wants it in traces
* `otlp` — sends them with OpenTelemetry's own SDK (extra `otel`); imported by whoever names it

A turn's spans are made when it is settled. Whoever makes them, and however often, they are the same: a session owes
them to its collector until the log says that they were taken (`outlast.engine.telling`), and a repetition is the same
spans with the same ids. Metrics are counted when a turn's spans were taken: at worst twice, where a worker dies before
it could write that down, or not at all, where it dies before it has sent them.
"""
