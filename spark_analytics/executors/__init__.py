"""Run this project's code in the Python processes of executors.

| module         | content                                                               |
|----------------|-----------------------------------------------------------------------|
| `shipping`     | the packages as one zip, for executors on other machines              |
| `setting`      | the topology file's text, from which tasks make the topology          |
| `task_process` | the start of a task, in a process that Spark reuses for many tasks    |
"""
