"""Writes the third-party protos that the contracts import, from the installed wheels.

`protovalidate` ships its contract only as a descriptor, so `buf/validate/validate.proto` is printed from that
descriptor; the files of `google/api` lie in the `googleapis-common-protos` wheel as they are. All are needed as files,
because `buf` and `protoc` read files and neither may reach a schema registry here. Run by `make protos`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, version
from pathlib import Path

from google.protobuf import (
    descriptor,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message,
    text_format,
    timestamp_pb2,
)
from protovalidate._gen.buf.validate import validate_pb

HERE = Path(__file__).parent
GOOGLE = ("annotations", "field_behavior", "http")
"""The files of `google/api` that the contracts import."""
FIELD = descriptor_pb2.FieldDescriptorProto
LABELS = {FIELD.LABEL_REPEATED: "repeated ", FIELD.LABEL_REQUIRED: "required ", FIELD.LABEL_OPTIONAL: "optional "}
SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FIELD.Type.items()}


def main() -> None:
    """Write the files below this folder."""
    bare = bytes(validate_pb.desc().proto.to_binary())
    file = _with_extensions(bare)
    target = HERE / "buf" / "validate" / "validate.proto"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(_print_file(file)) + "\n", encoding="utf-8")
    wheel = distribution("googleapis-common-protos")
    for name in GOOGLE:
        path = Path("google", "api", f"{name}.proto")
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(wheel.locate_file(path)), HERE / path)


def _with_extensions(bare: bytes) -> descriptor_pb2.FileDescriptorProto:
    """The file's descriptor with its own extensions known, so that options print by name."""
    for needed in (duration_pb2, field_mask_pb2, timestamp_pb2):
        descriptor_pool.Default().FindFileByName(needed.DESCRIPTOR.name)
    descriptor_pool.Default().AddSerializedFile(bare)
    return descriptor_pb2.FileDescriptorProto.FromString(bare)


def _print_file(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    yield f"// Printed from the descriptor in protovalidate {version('protovalidate')} (Apache-2.0, Buf Technologies)"
    yield "// by third_party/from_wheels.py; not written by hand."
    yield f'syntax = "{file.syntax or "proto2"}";'
    yield f"package {file.package};"
    yield from (f'import "{name}";' for name in file.dependency)
    for extension in file.extension:
        yield f"extend {extension.extendee.removeprefix('.')} {{"
        yield from _indent(_field(extension, file.syntax == "proto3"))
        yield "}"
    for enum in file.enum_type:
        yield from _enum(enum)
    for kind in file.message_type:
        yield from _message(kind, file.syntax == "proto3")


def _message(kind: descriptor_pb2.DescriptorProto, proto3: bool) -> Iterator[str]:
    yield f"message {kind.name} {{"
    yield from _indent(_options(kind.options))
    for enum in kind.enum_type:
        yield from _indent(_enum(enum))
    for nested in kind.nested_type:
        yield from _indent(_message(nested, proto3))
    for reserved in kind.reserved_range:
        yield f"  reserved {reserved.start} to {reserved.end - 1};"
    yield from (f'  reserved "{name}";' for name in kind.reserved_name)
    for span in kind.extension_range:
        yield f"  extensions {span.start} to {'max' if span.end > 536870911 else span.end - 1};"
    done: set[int] = set()
    for field in kind.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield from _indent(_field(field, proto3))
        elif field.oneof_index not in done:
            done.add(field.oneof_index)
            yield f"  oneof {kind.oneof_decl[field.oneof_index].name} {{"
            yield from _indent(_options(kind.oneof_decl[field.oneof_index].options), 4)
            members = (f for f in kind.field if f.HasField("oneof_index") and f.oneof_index == field.oneof_index)
            for member in members:
                yield from _indent(_field(member, proto3, label=False), 4)
            yield "  }"
    yield "}"


def _enum(enum: descriptor_pb2.EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indent(_options(enum.options))
    yield from (f"  {value.name} = {value.number};" for value in enum.value)
    yield "}"


def _field(field: FIELD, proto3: bool, label: bool = True) -> Iterator[str]:
    kind = field.type_name or SCALARS[field.type]
    prefix = LABELS[field.label] if label else ""
    if proto3 and field.label == FIELD.LABEL_OPTIONAL and not field.proto3_optional:
        prefix = ""
    inside = [f"{name} = {value}" for name, value in _option_values(field.options)]
    if field.HasField("default_value"):
        quoted = f'"{field.default_value}"' if field.type == FIELD.TYPE_STRING else field.default_value
        inside.insert(0, f"default = {quoted}")
    yield f"{prefix}{kind} {field.name} = {field.number}{' [' + ', '.join(inside) + ']' if inside else ''};"


def _options(options: message.Message) -> Iterator[str]:
    yield from (f"option {name} = {value};" for name, value in _option_values(options))


def _option_values(options: message.Message) -> Iterator[tuple[str, str]]:
    for field, value in options.ListFields():
        name = f"({field.full_name})" if field.is_extension else field.name
        values: Iterable[object] = value if field.is_repeated else [value]
        for one in values:
            yield name, _format_option_value(field, one)


def _format_option_value(field: descriptor.FieldDescriptor, value: object) -> str:
    if isinstance(value, message.Message):
        return "{" + text_format.MessageToString(value, as_one_line=True, as_utf8=True) + "}"
    if field.enum_type is not None and isinstance(value, int):
        return str(field.enum_type.values_by_number[value].name)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indent(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    return (" " * by + line for line in lines)


if __name__ == "__main__":
    main()
