"""Whether a body is one of Converse: by botocore, which has the service's model."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

SERVICE = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def judge(path: str, body: Mapping[str, Any]) -> None:
    """Fail unless botocore knows every member, and would have written the same to the same place."""
    match = re.fullmatch(r"/model/([^/]+)/(converse(-stream)?)", path)
    assert match, path
    operation = SERVICE.operation_model("ConverseStream" if match[3] else "Converse")
    params = {**body, "modelId": unquote(match[1])}
    report = ParamValidator().validate(with_bytes(params), operation.input_shape)
    assert not report.has_errors(), report.generate_report()
    for _ in check(params, operation.input_shape):
        pass
    written: Any = create_serializer("rest-json").serialize_to_request(with_bytes(params), operation)
    assert json.loads(written["body"]) == body
    assert unquote(written["url_path"]) == unquote(path)


def with_bytes(value: Any) -> Any:
    """The value as a caller of boto3 gives it, with the bytes of media."""
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if isinstance(value, dict):
        blobs = ("bytes", "redactedContent")
        return {name: base64.b64decode(each) if name in blobs else with_bytes(each) for name, each in value.items()}
    return value


def check(value: Any, shape: Any) -> Iterator[None]:
    """What botocore leaves to the service: enumerations, patterns, lengths."""
    match shape.type_name:
        case "structure" if not shape.is_document_type:
            for name, each in value.items():
                yield from check(each, shape.members[name])
        case "list":
            for each in value:
                yield from check(each, shape.member)
        case "string":
            bounds = shape.metadata
            assert not bounds.get("enum") or value in bounds["enum"], (shape.name, value)
            assert bounds.get("min", 0) <= len(value) <= bounds.get("max", len(value)), (shape.name, value)
            assert re.fullmatch(bounds.get("pattern", "(?s).*"), value), (shape.name, value)
        case _:
            pass
