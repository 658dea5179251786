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
    of_models = definitions.pop("ModelSpec")["properties"]
    for spec in ("InlineSpec", "SegmentSpec"):
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
                *_variants(registry, definitions, of_models if kind == "model" else None),
                {
                    "type": "object",
                    "description": f"A {kind} of a plugin.",
                    "properties": {"type": {"type": "string", "not": {"enum": registry.names()}}},
                    "required": ["type"],
                },
            ]
        }
    properties = schema["properties"]
    for key, kind in (
        ("datasets", "dataset"),
        ("models", "model"),
        ("split", "split"),
        ("segments", "segment"),
    ):
        properties[key]["items"] = {"$ref": f"#/$defs/{kind}"}
    properties["split"] = {"anyOf": [{"$ref": "#/$defs/split"}, properties["split"]]}
    definitions["Tune"]["properties"]["split"]["anyOf"][0] = {"$ref": "#/$defs/split"}
    space = definitions["Space"]
    choices = {"type": "array", "items": {}, "minItems": 1, "description": "Values without an order."}
    definitions["Space"] = {"anyOf": [choices, space]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _variants(
    registry: Registry[Any], definitions: dict[str, Any], of_models: dict[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """Yield the schema of each component; ``of_models``: the keys of a model, whose parameters are not inline."""
    for entry in registry:
        own = schema_of(entry.cls)
        definitions.update(own.pop("$defs", {}))
        parameters = own.get("properties", {})
        head = {
            "type": {"const": entry.name, "description": entry.summary},
            "name": {"type": "string", "minLength": 1},
        }
        required = ["type"]
        if of_models is not None:
            params = {"type": "object", "properties": parameters, "additionalProperties": False}
            properties = {**of_models, **head, "params": params}
        else:
            properties = {**head, **parameters}
            required += own.get("required", [])
        yield {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
