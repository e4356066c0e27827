"""What the project runs on: brokers, stores, containers, and their set-up."""
