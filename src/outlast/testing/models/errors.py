"""What can go wrong around a scripted model server."""

from outlast.errors import BadInput, OutlastError


class BadScript(BadInput):
    """A script does not read as a script; `place` says where, e.g. `demo.toml, at conversations.main[2]`."""

    text = "{place}: {reason}. Correct the script and start again."


class UnreadableRequest(BadInput):
    """A request body is not one of the dialect that it was sent to."""

    text = "This is not a request of the {dialect} dialect: {reason}."


class NoConversation(BadInput):
    """A request selects no conversation that the script has."""

    text = "{reason} The script has: {known}."


class CannotListen(OutlastError):
    """The scripted model server cannot have its address."""

    text = "Cannot listen on {host}:{port}: {reason}. Choose another port, or 0 for any free one."


class NotReady(OutlastError):
    """A scripted model server started as a process of its own did not come up."""

    text = "The scripted model server {how} before it was ready; its standard error says why."
