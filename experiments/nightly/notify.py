"""Append the notification of a night (JSON on stdin) to notifications.txt; a real notifier would send a message."""

import json
import sys

event = json.load(sys.stdin)
reasons = [event["decision"] and event["decision"]["reason"], event["error"], *map(str, event["failed"])]
reason = "; ".join(filter(None, reasons))
with open("notifications.txt", "a", encoding="utf-8") as file:
    print(event["at"], event["config"], event["outcome"], reason, sep="\t", file=file)
