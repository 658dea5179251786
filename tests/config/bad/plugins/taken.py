from dataclasses import dataclass

import evalplugin


@evalplugin.model("random")
@dataclass
class Taken:
    def fit(self, train, rng): ...

    def scores(self, users): ...
