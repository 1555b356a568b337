"""What ships for testing: contracts, faults, the scripted model server. No other part of outlast needs it."""
