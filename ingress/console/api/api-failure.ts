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
type FailedResponse = { status: number; body: string; header: (name: string) => string | null };

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

/** The messages of a refused form by the field that they are about. */
export type FieldErrors<Field extends string = string> = Partial<Record<Field, string>>;

/**
 * Takes a refusal apart (contract.md#b5-validation-errors): `name: expected …; allowed_ips[1]: expected …`. Messages about none of these
 * fields are left out; `beyondFields` has them.
 */
export function fieldErrorsOf<Field extends string>(error: unknown, fields: readonly Field[]): FieldErrors<Field> {
  const found: FieldErrors<Field> = {};
  if (!(error instanceof ApiFailure) || error.code !== 'VALIDATION_ERROR') return found;
  for (const part of error.message.split('; ')) {
    const [, path = '', index, message = ''] = ofField.exec(part) ?? [];
    const field = fields.find((name) => name === path);
    if (field === undefined) continue;
    const said = index === undefined ? message : `entry ${Number(index) + 1}: ${message}`;
    found[field] = found[field] === undefined ? said : `${found[field]}; ${said}`;
  }
  return found;
}

const ofField = /^([\w.]+)(?:\[(\d+)\])?: (.*)$/s;

/** What of a failure is not shown beside these fields; undefined if nothing is left. */
export function beyondFields(error: unknown, fields: readonly string[]): unknown {
  if (!(error instanceof ApiFailure) || error.code !== 'VALIDATION_ERROR') return error;
  const parts = error.message.split('; ');
  const rest = parts.filter((part) => !fields.includes(ofField.exec(part)?.[1] ?? ''));
  if (rest.length === parts.length) return error;
  return rest.length === 0 ? undefined : new ApiFailure(rest.join('; '), error);
}
