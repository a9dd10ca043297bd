"""A gRPC transport on one thread: short calls are answered as they arrive, the rest runs in asyncio.

It stands on the C core of grpcio by way of `grpc._cython.cygrpc`, as `grpc.aio` does (docs/adr/0013-rpc.md).
"""
