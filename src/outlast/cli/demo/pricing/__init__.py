"""`outlast demo --story pricing`: the same work three times, each time with a function whose time is over in between.

* `shop` — the small application that is worked on, what the model says, and what it is asked
* `forge`, `gh` — the stand-in forge, with its CI, and its command
* `bench` — the directories, repositories and programs of one run
* `bare` — Claude Code by itself: started over, or continued by its own means
* `durable` — the same with outlast: functions that come and go
* `door` — the server that the browser comes to, and the forge
* `panes` — the other two in the page
* `watcher` — the browser whose cable is pulled
* `columns` — the three beside each other in the terminal
* `bill` — what each has cost, and whether outlast kept its promises
* `performance` — all of it
"""
