"""Tensors of Orbax in S3: TensorStore has it, and Orbax names gs:// alone."""

import os
from functools import cache
from typing import Any


def teach_orbax() -> None:
    """Make Orbax read and write tensors in s3:// as in gs://."""
    from orbax.checkpoint._src.serialization import tensorstore_utils as orbax

    build = orbax.build_kvstore_tspec
    if build.__module__ == __name__:
        return

    def build_kvstore_tspec(directory: str, *args: Any, **options: Any) -> Any:
        if not directory.startswith("s3://"):
            return build(directory, *args, **options)
        return _in_s3(build("gs" + directory[2:], *args, **options))

    orbax.build_kvstore_tspec = build_kvstore_tspec


def _in_s3(spec: Any) -> Any:
    """Return what TensorStore is told of a place in S3, of what it is told of the same one in GCS."""
    if isinstance(spec, list):
        return [_in_s3(one) for one in spec]
    if not isinstance(spec, dict):
        return spec
    if str(spec.get("driver")).startswith("gcs"):
        return {**spec, **_service()}
    return {name: _in_s3(value) for name, value in spec.items()}


@cache
def _service() -> dict[str, Any]:
    """Return where S3 is, as botocore has it of variables and files, for TensorStore, which reads none of them."""
    from botocore.session import get_session

    about = get_session().create_client("s3").meta
    service: dict[str, Any] = {"driver": "s3"}
    if about.region_name:
        service["aws_region"] = about.region_name
    if ".amazonaws.com" not in about.endpoint_url:
        service["endpoint"] = about.endpoint_url
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        service["aws_credentials"] = {"type": "environment"}
    return service
