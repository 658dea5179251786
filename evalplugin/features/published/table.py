"""Published tables: YAML files with the origin of the data, a config, and the values that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from evalplugin.base.errors import DataError, EvalpluginError, Problem, did_you_mean
from evalplugin.components.parameters import problems_of
from evalplugin.config.document import Document, read_document
from evalplugin.config.sections import Closed
from evalplugin.metrics import parse

SHIPPED = Path(__file__).resolve().parents[2] / "published"
DATA = "{data}"  # in a config: the folder with the files of published tables
CONVERTED = "{converted}"  # in a config: a folder with tables that are made of them for the time of a run
NO_VALUE = "-"
Positive = Annotated[float, Field(gt=0)]


class Source(Closed):
    """Where values were published."""

    title: str = Field(min_length=1, description="The publication, as one cites it.")
    url: str = Field(pattern="^https?://", description="Its address.")
    place: str = Field(min_length=1, description="Table, page or file in it.")


class DataFile(Closed):
    """A file of the data."""

    file: str = Field(min_length=1, description="Its path below the folder `published` of the data home.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Checksum of its content.")
    url: str | None = Field(default=None, pattern="^https://", description="Where it is fetched from.")
    origin: str | None = Field(default=None, min_length=1, description="Where to get it, if it has no URL.")
    convert: Literal["cmn"] | None = Field(
        default=None,
        description="How tables are made of it in the folder `{converted}`: cmn makes train.csv, test.csv and pool.csv "
        "of a file of Collaborative Memory Networks.",
    )

    @model_validator(mode="after")
    def _has_origin(self) -> DataFile:
        if self.url is None and self.origin is None:
            raise ValueError("a file needs a url to be fetched from, or an origin in words")
        return self


class Difference(Closed):
    """Why the values of a model need not come out to the printed digit."""

    reason: str = Field(min_length=1, description="The reason, with what was measured.")
    within: Positive | dict[str, Positive] = Field(
        description="The largest absolute difference that it explains: of all metrics, or of each that it concerns."
    )

    def within_of(self, metric: str) -> float:
        """Return the largest difference of a metric that it explains: 0 if it does not concern the metric."""
        return self.within.get(metric, 0.0) if isinstance(self.within, dict) else self.within


class Scale(Closed):
    """How a publication prints a metric: ``plus + times * value``, by a name of its own."""

    name: str = Field(min_length=1, description="The name that it is shown by, such as Gini diversity@50.")
    times: float = Field(description="Factor; 100 for values in percent.")
    plus: float = Field(default=0.0, description="Summand.")

    def printed(self, value: float) -> float:
        """Return a value of the metric as the publication would print it, unrounded."""
        return self.plus + self.times * value


class PublishedTable(Closed):
    """A published table."""

    title: str = Field(min_length=1, description="What is shown of it in lists.")
    source: Source = Field(description="Where the values were published.")
    data: list[DataFile] = Field(min_length=1, description="The files of the data.")
    metrics: list[str] = Field(min_length=1, description="The metrics of the values, in their order.")
    values: dict[str, str] = Field(
        min_length=1,
        description="The values of each model of the config as they are printed, separated by spaces; - for none: what "
        "is measured is shown, and counts for nothing.",
    )
    scales: dict[str, Scale] = Field(
        default={}, description="Metrics that the publication prints on another scale, such as percent."
    )
    differences: dict[str, Difference] = Field(
        default={}, description="Models whose values depend on something that the publication leaves open."
    )
    config: dict[str, Any] = Field(description="The bake-off; `{data}` is the folder of the files.")

    @field_validator("values")
    @classmethod
    def _are_numbers(cls, values: dict[str, str]) -> dict[str, str]:
        for model, row in values.items():
            for text in row.split():
                if text != NO_VALUE and not text.replace(".", "", 1).isdecimal():
                    raise ValueError(f"{model}: {text!r} is no printed value, such as 0.0382, nor {NO_VALUE}")
        return values

    @model_validator(mode="after")
    def _has_a_value_for_each_metric(self) -> PublishedTable:
        for model, row in self.values.items():
            if (given := len(row.split())) != len(self.metrics):
                raise ValueError(
                    f"values: {model} has {given} values, but there are {len(self.metrics)} metrics"
                )
        for model, difference in self.differences.items():
            _check_known(f"differences: no values of {model}", model, list(self.values))
            if isinstance(difference.within, dict):
                for metric in difference.within:
                    _check_known(f"differences.{model}.within: no metric {metric}", metric, self.metrics)
        for metric in self.scales:
            _check_known(f"scales: no metric {metric}", metric, self.metrics)
        return self


def _check_known(problem: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"{problem}{did_you_mean(name, known)}; there are {', '.join(known)}")


@dataclass(frozen=True)
class NamedTable:
    """A published table, and the file that it is read from."""

    name: str
    file: Path
    document: Document
    table: PublishedTable

    @classmethod
    def read(cls, file: Path) -> NamedTable:
        """Return the table of a file.

        Raises:
            ConfigError: Everything that is wrong with it, with its place.
        """
        document = read_document(file)
        try:
            table = PublishedTable.model_validate(document.data)
        except ValidationError as error:
            problems = problems_of(
                error, PublishedTable, document.data, noun="key", owner="a published table"
            )
            raise document.error(problems) from None
        return cls(file.stem, file, document, table)

    def config_with(self, data: Path, converted: Path) -> dict[str, Any]:
        """Return the config with the folders of the data in its paths, and an experiment of the table's name."""
        folders = {DATA: str(data), CONVERTED: str(converted)}
        return {"experiment": f"published {self.name}", **_filled(self.table.config, folders)}

    def check_config(self, models: Sequence[str], metrics: Sequence[str]) -> None:
        """Refuse values of models, or of metrics, that the config does not have.

        Args:
            models: The names of the models of the config.
            metrics: The canonical names of its metrics.

        Raises:
            ConfigError: There are some; with their places.
        """
        problems = [
            Problem(
                ("values", model),
                f"no model {model!r} in the config{did_you_mean(model, models)}",
                at_key=True,
            )
            for model in self.table.values
            if model not in models
        ]
        for position, metric in enumerate(self.table.metrics):
            try:
                name = parse(metric).name
            except EvalpluginError as error:
                problems.append(Problem(("metrics", position), str(error)))
                continue
            if name not in metrics:
                missing = (
                    f"no metric {name!r} in the config{did_you_mean(name, metrics)}; add it to config.metrics"
                )
                problems.append(Problem(("metrics", position), missing))
        if problems:
            raise self.document.error(problems)


def find_tables(names: tuple[str, ...], folders: tuple[Path, ...] = ()) -> list[NamedTable]:
    """Return tables by name, of those that evalplugin has and those in folders, or by path; without names all.

    Raises:
        ConfigError: A file that is no published table.
        DataError: No table has the name.
    """
    known = {file.stem: file for folder in (SHIPPED, *folders) for file in sorted(folder.glob("*.yaml"))}
    files = []
    for name in names:
        path = Path(name)
        if path.suffix in (".yaml", ".yml"):
            files.append(path)
        elif name in known:
            files.append(known[name])
        else:
            raise DataError(
                f"no published table {name!r}{did_you_mean(name, list(known))}; a file is named by its path"
            )
    return [NamedTable.read(file) for file in (files if names else (known[name] for name in sorted(known)))]


def _filled(value: Any, folders: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, folder in folders.items():
            value = value.replace(name, folder)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(item, folders) for key, item in value.items()}
    return [_filled(item, folders) for item in value] if isinstance(value, list) else value
