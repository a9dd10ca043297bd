"""gRPC with one thread: what can be answered at once is answered where it arrives, what waits runs in asyncio.

It stands on the C core of grpcio by way of `grpc._cython.cygrpc`, as `grpc.aio` does (docs/adr/0013-rpc.md).
"""
