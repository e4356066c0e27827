"""Set-up of the brokers, stores and containers that the project runs on."""
