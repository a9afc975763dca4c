"""pFabric (SIGCOMM'13)."""
