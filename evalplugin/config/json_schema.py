"""The JSON Schema of configs, with the parameters of every registered component, for editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalplugin.base.parameters import schema_of
from evalplugin.base.registry import Registry
from evalplugin.config.schema import Config
from evalplugin.data import DATASETS, SPLITS
from evalplugin.models import MODELS
from evalplugin.segments import SEGMENTS

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a config.

    Components of a config's own plugin files are unknown: their types are allowed, their parameters are not
    described.
    """
    schema = Config.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    for spec in ("InlineSpec", "SegmentSpec", "ModelSpec"):
        definitions.pop(spec)
    registries: dict[str, Registry[Any]] = {
        "dataset": DATASETS,
        "split": SPLITS,
        "segment": SEGMENTS,
        "model": MODELS,
    }
    for kind, registry in registries.items():
        definitions[kind] = {
            "anyOf": [
                {
                    "type": "string",
                    "examples": registry.names(),
                    "description": f"Type of a {kind} that needs no parameters.",
                },
                *_variants(kind, registry, definitions),
                {
                    "type": "object",
                    "description": f"A {kind} of a plugin.",
                    "properties": {"type": {"type": "string", "not": {"enum": registry.names()}}},
                    "required": ["type"],
                },
            ]
        }
    properties = schema["properties"]
    properties["datasets"] = _list_of("dataset", "Datasets, each a type with a name and parameters.")
    properties["models"] = _list_of("model", "Models, each a type with a name and parameters.")
    properties["split"] = {"anyOf": [{"$ref": "#/$defs/split"}, _list_of("split", "Several splits.")]}
    properties["segments"]["items"] = {"$ref": "#/$defs/segment"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _list_of(kind: str, description: str) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{kind}"}, "description": description}


def _variants(kind: str, registry: Registry[Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in registry:
        own = schema_of(entry.cls)
        definitions.update(own.pop("$defs", {}))
        parameters = own.get("properties", {})
        head = {
            "type": {"const": entry.name, "description": entry.summary},
            "name": {"type": "string", "minLength": 1},
        }
        required = ["type"]
        if kind == "model":
            properties = {
                **head,
                "params": {"type": "object", "properties": parameters, "additionalProperties": False},
                "grid": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "minItems": 1},
                    "description": "Values to try for each parameter.",
                },
            }
        else:
            properties = {**head, **parameters}
            required += own.get("required", [])
        yield {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
