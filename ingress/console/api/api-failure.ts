/** A failed call of the API with the message of the API; `requestId` identifies it in a support request. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  readonly code: string;
  readonly requestId: string | undefined;
  /** 0 if there was no response. */
  readonly status: number;

  constructor(
    message: string,
    { code, status, requestId }: { code: string; status: number; requestId?: string | undefined },
  ) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
  }
}

/** There was no response. */
export function unreachable(): ApiFailure {
  return new ApiFailure('The API cannot be reached. Check your connection, or try again in a moment.', {
    code: 'unreachable',
    status: 0,
  });
}

/** The connection was lost during the response. */
export function brokenOff(status: number, requestId: string | null): ApiFailure {
  return new ApiFailure('The connection was lost before the response was complete. Try again.', {
    code: 'cut off',
    status,
    requestId: requestId ?? undefined,
  });
}

/** Reads every error format of the API, and any response of a proxy in front of it. */
export function failureOf(status: number, body: string, requestId: string | null): ApiFailure {
  const { error, code } = fieldsOf(body);
  const known = { status, requestId: requestId ?? undefined };
  if (typeof error === 'string' && typeof code === 'string') return new ApiFailure(error, { code, ...known });
  if (typeof error === 'object' && error !== null && 'message' in error && 'code' in error) {
    return new ApiFailure(String(error.message), { code: String(error.code), ...known });
  }
  return new ApiFailure(`The response with status ${status} does not come from the API.`, {
    code: 'not the API',
    ...known,
  });
}

function fieldsOf(body: string): { error?: unknown; code?: unknown } {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
