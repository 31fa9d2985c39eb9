type FailureFields = { code: string; status: number; requestId?: string | undefined; helpUrl?: string | undefined };

/** A failed call of the API with the message of the API; `requestId` identifies it in a support request. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  readonly code: string;
  readonly requestId: string | undefined;
  /** 0 if there was no response, or if it failed after it had begun. */
  readonly status: number;
  /** The page that explains it. */
  readonly helpUrl: string | undefined;

  constructor(message: string, { code, status, requestId, helpUrl }: FailureFields) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.helpUrl = helpUrl;
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

/** The parts of a response that a failure is read from. `header` returns the value of a header, or null. */
export type FailedResponse = { status: number; body: string; header: (name: string) => string | null };

/** Reads every error format of the API, and any response of a proxy in front of it. */
export function failureOf({ status, body, header }: FailedResponse): ApiFailure {
  const { error, code } = fieldsOf(body);
  const known = { status, requestId: header('x-request-id') ?? undefined, helpUrl: helpIn(header('link')) };
  if (typeof error === 'string' && typeof code === 'string') return new ApiFailure(error, { code, ...known });
  if (typeof error === 'object' && error !== null && 'message' in error && 'code' in error) {
    return new ApiFailure(String(error.message), { code: String(error.code), ...known });
  }
  return new ApiFailure(`The response with status ${status} does not come from the API.`, {
    code: 'not the API',
    ...known,
  });
}

/** The address in the API's `Link` header (RFC 8288), which must be one of a page. */
function helpIn(link: string | null): string | undefined {
  return /^<(https?:\/\/[^>]+)>; rel="help"$/.exec(link ?? '')?.[1];
}

function fieldsOf(body: string): { error?: unknown; code?: unknown } {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
