"""Implementations of `outlast.waker.Waker`, found through entry points by the scheme of a URL."""
