raise ZeroDivisionError("on purpose")
