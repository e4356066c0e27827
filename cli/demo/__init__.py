"""What `inorder demo` publishes, and how it shows what becomes of it.

recording   the recorded events, played now and faster
trouble     delays, holes and copies on their way, with an account of them
clocks      sources whose clocks are wrong, and the time sync that finds out
stage       the embedded Kafka and the worker
watching    what comes out, read and judged
show        the command: everything together, on the terminal
"""
