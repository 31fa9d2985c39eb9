"""Serves a model over HTTP with llama.cpp's own server, until SIGTERM.

usage: serve.py <settings as JSON>: file, port, name, kind (generate, embed, rank), slots, context (tokens of all slots together)
"""

import json
import signal
import sys
import threading

import xllamacpp


def parameters(*, file: str, port: int, name: str, kind: str, slots: int, context: int) -> xllamacpp.CommonParams:
    wanted = xllamacpp.CommonParams()
    wanted.model.path = file
    wanted.model_alias = {name}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = port
    wanted.n_parallel = slots
    wanted.n_ctx = context
    wanted.n_gpu_layers = 0
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    wanted.n_threads_http = 32
    wanted.endpoint_metrics = wanted.endpoint_slots = True
    wanted.use_jinja = True
    wanted.warmup = False
    wanted.cache_ram_mib = 64  # of answers that have left their slot; its default is 8 GiB
    if kind != "generate":
        pooling = xllamacpp.llama_pooling_type
        wanted.embedding = True
        wanted.pooling_type = pooling.LLAMA_POOLING_TYPE_RANK if kind == "rank" else pooling.LLAMA_POOLING_TYPE_MEAN
        wanted.n_batch = wanted.n_ubatch = context // slots
    return wanted


ended = threading.Event()
for name in (signal.SIGTERM, signal.SIGINT):
    signal.signal(name, lambda *_: ended.set())
server = xllamacpp.Server(parameters(**json.loads(sys.argv[1])))
ended.wait()
