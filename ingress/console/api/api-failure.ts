/** Why a call of the API came to nothing, in the API's own words; `requestId` is what to name when asking for help. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  readonly code: string;
  readonly requestId: string | undefined;
  /** 0 where there was no answer. */
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

/** There was no answer at all. */
export function unreachable(): ApiFailure {
  return new ApiFailure('The API cannot be reached. Check your connection, or try again in a moment.', {
    code: 'unreachable',
    status: 0,
  });
}

/** An answer had begun, and its connection was lost. */
export function brokenOff(status: number, requestId: string | null): ApiFailure {
  return new ApiFailure('The answer broke off before it was whole. Try again.', {
    code: 'cut off',
    status,
    requestId: requestId ?? undefined,
  });
}

/** Both shapes of the API's refusals, and whatever a proxy before it may say. */
export function failureOf(status: number, body: string, requestId: string | null): ApiFailure {
  const { error, code } = fieldsOf(body);
  const known = { status, requestId: requestId ?? undefined };
  if (typeof error === 'string' && typeof code === 'string') return new ApiFailure(error, { code, ...known });
  if (typeof error === 'object' && error !== null && 'message' in error && 'code' in error) {
    return new ApiFailure(String(error.message), { code: String(error.code), ...known });
  }
  return new ApiFailure(`The answer was ${status}, and is not one of the API.`, { code: 'not the API', ...known });
}

function fieldsOf(body: string): { error?: unknown; code?: unknown } {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
