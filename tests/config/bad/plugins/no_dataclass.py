import evalplugin


@evalplugin.model("no-dataclass")
class NoDataclass:
    def fit(self, train, rng): ...

    def scores(self, users): ...
