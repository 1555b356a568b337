"""`outlast acp`: durable sessions for editors, by the Agent Client Protocol over standard input and output.

* `command` — the command, and what must be there before an editor is answered
* `lines` — JSON-RPC over standard input and output, whatever comes there
* `answering` — from the editor's first line to its last
* `desk` — what an editor may ask of us
* `screen` — the editor at the other end
* `conversation` — one session that an editor has open: shown from the log, prompted, decided about
* `shown` — what each event of a log is on the screen of an editor
* `live` — text while it is said, for who wants that
* `said`, `tools`, `listed`, `prompts` — texts of answers, tool calls and sessions as editors draw them · what they send
* `questions` — decisions as an editor asks its user for them
"""
