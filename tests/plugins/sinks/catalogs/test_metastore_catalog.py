from __future__ import annotations

from tests.support.catalogs import FakeStore, MemoryCatalog, MemoryMetastore

LOCATION = "s3://lake/t"


def test_partition_of_a_quicker_writer_stays() -> None:
    """Another pipeline commits and registers a partition while this one lists the partitions in storage."""
    store, metastore = FakeStore(LOCATION), MemoryMetastore()
    slow, quick = MemoryCatalog(metastore), MemoryCatalog(metastore)
    written = store.commit("one")
    store.register(quick, "shop.orders", written)

    def overtake() -> None:
        store.after_listing = lambda: None
        store.register(quick, "shop.orders", store.commit("two"))

    store.after_listing = overtake
    store.register(slow, "shop.orders", written)
    assert metastore.partitions.keys() == store.partitions.keys() == {("one",), ("two",)}
