"""Who plays when Claude Code does: an agent of the shop."""

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.cli.demo.shop import charge_card, find_charges

agent = Agent("demo-shop", ClaudeCode(model="claude-sonnet-4-5"), tools=[charge_card, find_charges])
