"""`python -m switchd.show --redis URL status`: the plug-in's commands off a switch."""

from switchd.show.plain import main

main()
