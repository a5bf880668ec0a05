"""Serves an engine over HTTP: arrays in an .npz file come in, the outputs go out in another.

pip install 'trtsmith[gpu]' fastapi uvicorn
ENGINE=detector.plan uvicorn detector_server:app
curl --data-binary @inputs.npz http://localhost:8000/infer -o outputs.npz
"""

import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

import trtsmith

SESSIONS = 2
WAIT_S = 5.0


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with trtsmith.Runner.load(os.environ["ENGINE"], cuda_graph=True) as runner:
        app.state.pool = runner.pool(SESSIONS)
        app.state.pool.warm_up()  # no request waits for a compiler
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/infer")
async def infer(request: Request) -> Response:
    try:
        with np.load(io.BytesIO(await request.body()), allow_pickle=False) as file:
            feeds = dict(file)
    except ValueError as error:
        raise HTTPException(422, f"not an .npz file: {error}") from error
    try:
        outputs = await run_in_threadpool(app.state.pool, feeds, timeout=WAIT_S)
    except trtsmith.UsageError as error:  # a name, a shape or a type that the engine does not take
        raise HTTPException(422, str(error)) from error
    except TimeoutError as error:
        raise HTTPException(503, str(error)) from error
    answer = io.BytesIO()
    np.savez(answer, **outputs)
    return Response(answer.getvalue(), media_type="application/octet-stream")
