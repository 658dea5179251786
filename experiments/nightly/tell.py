"""Adds what is worth telling of a night to told.txt; a real one would send a message."""

import json
import sys

told = json.load(sys.stdin)
reason = told["decision"]["reason"] if told["decision"] else told["error"] or told["failed"]
with open("told.txt", "a", encoding="utf-8") as file:
    print(told["at"], told["config"], told["outcome"], reason, sep="\t", file=file)
