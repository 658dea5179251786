"""The JSON Schema of configs, with the parameters of every registered component, for editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalplugin.components.parameters import schema_of
from evalplugin.components.registry import Registry
from evalplugin.config.engines import ENGINES
from evalplugin.config.schema import Config
from evalplugin.data import DATASETS, FILTERS, SPLITS
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
    filters = definitions["DatasetSpec"]["properties"]["filters"] | {"items": {"$ref": "#/$defs/filter"}}
    name = {"type": "string", "minLength": 1}
    # Keys beside the type and, but for models, the parameters.
    beside: dict[str, dict[str, Any]] = {
        "dataset": {"name": name, "filters": filters},
        "split": {"name": name},
        "segment": {"name": name},
        "model": {**definitions.pop("ModelSpec")["properties"], "name": name},
    }
    for spec in ("DatasetSpec", "EngineSpec", "FilterSpec", "InlineSpec", "SegmentSpec"):
        definitions.pop(spec)
    registries: dict[str, Registry[Any]] = {
        "dataset": DATASETS,
        "filter": FILTERS,
        "split": SPLITS,
        "segment": SEGMENTS,
        "model": MODELS,
        "engine": ENGINES,
    }
    for kind, registry in registries.items():
        definitions[kind] = {
            "anyOf": [
                {
                    "type": "string",
                    "examples": registry.names(),
                    "description": f"Type of a {kind} that needs no parameters.",
                },
                *_variants(registry, definitions, beside.get(kind, {}), has_params=kind == "model"),
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
    properties["engine"]["anyOf"][0] = {"$ref": "#/$defs/engine"}
    definitions["Tune"]["properties"]["split"]["anyOf"][0] = {"$ref": "#/$defs/split"}
    space = definitions["Space"]
    choices = {"type": "array", "items": {}, "minItems": 1, "description": "Values without an order."}
    definitions["Space"] = {"anyOf": [choices, space]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _variants(
    registry: Registry[Any], definitions: dict[str, Any], beside: dict[str, Any], *, has_params: bool
) -> Iterator[dict[str, Any]]:
    """Yield the schema of each component: its type, the keys beside it, and its parameters, inline or under params."""
    for entry in registry:
        own = schema_of(entry.cls)
        definitions.update(own.pop("$defs", {}))
        parameters = own.get("properties", {})
        properties = {**beside, "type": {"const": entry.name, "description": entry.summary}}
        required = ["type"]
        if has_params:
            properties["params"] = {
                "type": "object",
                "properties": parameters,
                "additionalProperties": False,
            }
        else:
            properties |= parameters
            required += own.get("required", [])
        yield {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
