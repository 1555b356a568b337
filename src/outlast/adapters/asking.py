"""A model call of a loop, from its request to what the loop reads."""

from dataclasses import replace

import msgspec

from outlast.adapter import Attempt, Send, Served
from outlast.adapters.endings import refusal_of, said_by
from outlast.adapters.lanes import Board
from outlast.calls import Joined, Parked
from outlast.errors import BadInput, ModelCallFailed, ModelCallRejected, TurnStopped
from outlast.gate import Point
from outlast.model import Answer, Model, Request, answer_json, billed, model_ask, read_answer


async def ask_model(attempt: Attempt, board: Board, lane: str, model: Model, request: Request) -> Answer:
    """The answer to a request of a lane's: from the log, or asked for now."""
    ask = replace(model_ask(request, lane=lane), placed=True)
    match await attempt.calls.open_model(ask):
        case Served(answer=answer, refused=False):
            return read_answer(answer)
        case Served(answer=refusal):
            raise refusal_of(refusal)
        case Send(call=call):
            return await _send(attempt, board, model, request, call)
        case Parked(why=why):
            raise TurnStopped(why)
        case Joined():
            raise BadInput(detail="a lane makes one model call at a time")


async def _send(attempt: Attempt, board: Board, model: Model, request: Request, call: int) -> Answer:
    calls = attempt.calls
    await attempt.gate.cross(Point.IN_EFFECT, call=call, policy="model")
    try:
        answer = await model.ask(request, lambda kind, piece: calls.show(call, kind, piece))
    except ModelCallFailed as error:
        await calls.void_model(call, str(error), billed(error), retry_after_s=error.retry_after_s)
        board.fail(error)
        await board.stand_still()
    except (ModelCallRejected, BadInput) as error:
        refusal = {"is": type(error).__name__, "facts": error.facts}
        await calls.refuse_model(
            call, refusal, billed(error) if isinstance(error, ModelCallRejected) else None
        )
        raise refusal_of(refusal) from error
    except Exception as error:
        # A fault of the client's, which the loop is told; nobody is being asked any more.
        await calls.void_model(call, said_by(error))
        raise
    await attempt.gate.cross(Point.AFTER_EFFECT, call=call, policy="model")
    # As the log will give it back: what a loop reads must be the same the first time and ever after.
    answer = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    await calls.settle_model(call, answer_json(answer), (), answer.usage)
    await attempt.gate.cross(Point.DELIVERED, call=call, policy="model")
    return answer
