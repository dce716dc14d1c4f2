"""PyIceberg's DynamoDB catalog at an address. PyIceberg's own asks Amazon: it has no property for an endpoint."""

from __future__ import annotations

from importlib import import_module

from pyiceberg.catalog.dynamodb import DynamoDbCatalog


class DynamoDbAt(DynamoDbCatalog):
    """What ``py-catalog-impl`` names; ``dynamodb.endpoint`` is where it asks, with the keys of ``client.*``."""

    def __init__(self, name: str, **properties: str) -> None:
        keys = {
            "region_name": properties["client.region"],
            "aws_access_key_id": properties["client.access-key-id"],
            "aws_secret_access_key": properties["client.secret-access-key"],
        }
        client = import_module("boto3").client("dynamodb", endpoint_url=properties["dynamodb.endpoint"], **keys)
        super().__init__(name, client, **properties)
