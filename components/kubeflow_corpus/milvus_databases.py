"""A client of a database that is not the default one.

pymilvus names the database in the metadata of a call. Servers before 2.4 look into the request instead where aliases
are listed or described, and answer for the default database (measured on 2.3.5: a list without the alias, and "alias
not found"). Everything else arrives: collections, searches by alias, creating and moving an alias.
"""

from __future__ import annotations

from typing import Any


def database_client(database: str) -> Any:
    """Returns the class of the clients of a database; of the default one it is pymilvus's own.

    Args:
        database: Name of the database; empty is the default.
    """
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    if database in ("", "default"):
        return MilvusClient

    class DatabaseClient(MilvusClient):  # type: ignore[misc]
        """Asks for the aliases of its own database, on every server."""

        def list_aliases(self, collection_name: str = "", timeout: float | None = None, **kwargs: Any) -> Any:
            """As `MilvusClient.list_aliases`."""
            return super().list_aliases(collection_name, timeout, **{"db_name": database, **kwargs})

        def describe_alias(self, alias: str, timeout: float | None = None, **kwargs: Any) -> Any:
            """As `MilvusClient.describe_alias`; a server that does not find the alias is asked for its collection."""
            try:
                return super().describe_alias(alias, timeout, **kwargs)
            except MilvusException:
                # pymilvus cannot name the database in this request. An alias is also a name of its collection.
                described = self.describe_collection(alias, timeout=timeout)
                if described["collection_name"] == alias:
                    raise
                return {"alias": alias, "collection_name": described["collection_name"], "db_name": database}

    return DatabaseClient
