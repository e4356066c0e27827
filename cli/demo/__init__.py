"""`inorder demo` publishes a recording with simulated faults and shows what inorder makes of it.

- `recording`: the recorded events, and their replay at the present time and at a higher speed
- `trouble`: delays, gaps and duplicates on the way, with an account of them
- `clocks`: sources with wrong clocks, and the time sync that measures their error
- `stage`: the embedded Kafka and the worker
- `watching`: the output, read and judged
- `show`: the command, which puts everything together on the terminal
"""
