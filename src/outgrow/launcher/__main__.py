"""`python -m outgrow.launcher FD`: become PID 1 of a job, by the plan that FD holds."""

from outgrow.launcher.init import main

main()
