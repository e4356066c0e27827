"""What commands start beside themselves on this machine: brokers, their jars and ports."""
