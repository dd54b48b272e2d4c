"""The admin API: one table of operations, one file a resource.

`table` holds every operation with its role; routing, the OpenAPI document, the table of paths in
the reference and the test that walks every route are made from it.
"""
