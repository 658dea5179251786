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


def json_schema(config: type[Config]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a config; ``config`` is from ``root_schema``.

    Components of a config's own plugin files are unknown: their types are allowed, their parameters are not
    described.
    """
    schema = config.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    filters = definitions["DatasetSpec"]["properties"]["filters"] | {"items": _reference("filter")}
    name = {"type": "string", "minLength": 1}
    # Keys beside the type and, but for models, the parameters.
    beside: dict[str, dict[str, Any]] = {
        "dataset": {"name": name, "filters": filters},
        "split": {"name": name},
        "segment": {"name": name},
        "model": {**definitions["ModelSpec"]["properties"], "name": name},
    }
    for spec in ("DatasetSpec", "EngineSpec", "FilterSpec", "InlineSpec", "ModelSpec", "SegmentSpec"):
        definitions.pop(spec)
    registries: tuple[Registry[Any], ...] = (DATASETS, FILTERS, SPLITS, SEGMENTS, MODELS, ENGINES)
    for registry in registries:
        kind = registry.kind
        types = {
            "type": "string",
            "examples": registry.names(),
            "description": f"Type of a {kind} that needs no parameters.",
        }
        of_plugin = {
            "type": "object",
            "description": f"A {kind} of a plugin.",
            "properties": {"type": {"type": "string", "not": {"enum": registry.names()}}},
            "required": ["type"],
        }
        variants = _variants(registry, definitions, beside.get(kind, {}))
        definitions[kind] = {"anyOf": [types, *variants, of_plugin]}
    properties = schema["properties"]
    for key in ("datasets", "models", "split", "segments"):
        properties[key]["items"] = _reference(key.removesuffix("s"))
    properties["split"] = {"anyOf": [_reference("split"), properties["split"]]}
    properties["engine"]["anyOf"][0] = _reference("engine")
    for definition in definitions.values():
        for field in definition.get("properties", {}).values():  # sections of features may have a split
            if _reference("InlineSpec") in field.get("anyOf", ()):
                field["anyOf"][field["anyOf"].index(_reference("InlineSpec"))] = _reference("split")
    choices = {"type": "array", "items": {}, "minItems": 1, "description": "Values without an order."}
    definitions["Space"] = {"anyOf": [choices, definitions["Space"]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _reference(definition: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{definition}"}


def _variants(
    registry: Registry[Any], definitions: dict[str, Any], beside: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the schema of each component: its type, the keys beside it, and its parameters, inline or under params."""
    for entry in registry:
        own = schema_of(entry.cls)
        nested = own.pop("$defs", {}).items()
        # Before 2.14, pydantic says nowhere that nested options are closed too.
        definitions.update((name, {"additionalProperties": False} | options) for name, options in nested)
        parameters, required = own.get("properties", {}), own.get("required", [])
        if registry is MODELS:
            params = {"type": "object", "properties": parameters, "additionalProperties": False}
            parameters, required = {"params": params}, []
        component_type = {"const": entry.name, "description": entry.summary}
        yield {
            "type": "object",
            "properties": {**beside, "type": component_type, **parameters},
            "required": ["type", *required],
            "additionalProperties": False,
        }
