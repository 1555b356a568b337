"""The server: people and programs watch sessions here, come and go, and steer them.

It holds no lease and advances nothing: whatever it is asked to do becomes an input that is durable before it answers,
and any number of servers may stand over one World. Workers run elsewhere, or beside it.

* `operations` — the table of what can be asked: routes, scopes, and the OpenAPI that follows from them
* `access` — who asks, for which tenant, and what they may
* `feeds` — each session read once for all who watch it here
* `streams` — one source of moves, and its projections: plain events, the AI SDK's, AG-UI's
* `routes` — what each operation does
* `page` — the page, without a build step
"""
