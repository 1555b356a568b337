"""What watchers are sent: one source of moves, and its projections.

* `saying` — the words of a model call's answer, whoever wrote it down
* `moves`, `turning` — what a turn shows, step by step, in no protocol's words; the fold that makes them of events
* `ai_sdk`, `ag_ui` — the moves as those protocols' streams
* `talk` — one turn read once for all who watch it here by one of these
"""
