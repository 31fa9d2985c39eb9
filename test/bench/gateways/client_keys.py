"""Checks the client keys of LiteLLM's proxy, whose own are kept in Postgres; its limiter enforces what is returned here."""

import json
import os

from fastapi import HTTPException
from litellm.proxy._types import UserAPIKeyAuth

limits_by_key = json.loads(os.environ["CLIENT_KEYS"])


async def check_key(request, api_key: str) -> UserAPIKeyAuth:
    if api_key not in limits_by_key:
        raise HTTPException(status_code=401, detail="unknown key")
    return UserAPIKeyAuth(api_key=api_key, **limits_by_key[api_key])
