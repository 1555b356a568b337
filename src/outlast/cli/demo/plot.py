"""What the scripted model says, and what is in the shop."""

from outlast.testing.models import Script, Step, ToolUse, Usage

PROMPT = (
    "Order 81 in orders.txt is not paid yet. Read the file, charge the card of order 81 with the charge_card tool, "
    "make sure with find_charges that it was charged exactly once, count the lines of orders.txt, and tell me. "
    "[script:demo]"
)
ORDERS = "order 80  12.00  paid\norder 81  49.90  open\norder 82   7.50  paid\n"
STREAMED = (
    "Order 81 is open and stands at 49.90. I will charge its card once, with the amount from the file, and I will "
    "look at the ledger afterwards, because a card must never be charged twice for one order."
)


def script() -> Script:
    """Five model calls; the second streams for about two seconds."""

    def usage(fresh: int, said: int, cached: int) -> Usage:
        return Usage(input_tokens=fresh, output_tokens=said, cache_read_tokens=cached, cache_write_tokens=0)

    steps = (
        Step(
            text="I look at the orders first.",
            tools=(
                ToolUse(name="Bash", input={"command": "cat orders.txt", "description": "Read the orders"}),
            ),
            usage=usage(5200, 84, 0),
        ),
        Step(
            text=STREAMED,
            tools=(ToolUse(name="mcp__outlast__charge_card", input={"order": "81", "cents": 4990}),),
            usage=usage(260, 131, 5200),
            gap_s=0.04,
        ),
        Step(
            text="I check what was really charged.",
            tools=(ToolUse(name="mcp__outlast__find_charges", input={"order": "81"}),),
            usage=usage(240, 66, 5460),
        ),
        Step(
            text="It was charged once. Now the lines.",
            tools=(
                ToolUse(name="Bash", input={"command": "wc -l orders.txt", "description": "Count the lines"}),
            ),
            usage=usage(120, 58, 5700),
            delay_s=0.3,
        ),
        Step(
            text="Order 81 is paid: 49.90, charged exactly once. orders.txt has 3 lines.",
            usage=usage(110, 41, 5820),
        ),
    )
    return Script(conversations={"demo": steps})
