"""Adds what is worth telling of a night to told.txt; a real one would send a message."""

import json
import sys

told = json.load(sys.stdin)
reasons = [told["decision"] and told["decision"]["reason"], told["error"], *map(str, told["failed"])]
reason = "; ".join(filter(None, reasons))
with open("told.txt", "a", encoding="utf-8") as file:
    print(told["at"], told["config"], told["outcome"], reason, sep="\t", file=file)
