"""Workspaces: `local` now; `virtual`, `sandbox` and drives stand beside it later."""
