"""Our own code in the Python processes of executors.

| module         | what it holds                                                         |
|----------------|-----------------------------------------------------------------------|
| `shipping`     | the rooms as one zip, for executors on other machines                 |
| `setting`      | the topology file's text, by which tasks make the topology            |
| `task_process` | what a task does first, in a process that is used again and again     |
"""
