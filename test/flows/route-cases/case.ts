import type { ExecutionContext } from 'ava';
import { head } from '../../support/refusal.ts';

/** The largest body of a request to a model, and the largest file. */
export const bodyBytesMax = 65_536;

/** What a body has: a text, these fields, or what the function asserts. */
export type Expected = string | RegExp | object | ((t: ExecutionContext, body: Record<string, unknown>) => void);

/** One request, the name of the expected answer, and what its body has. */
export type Case = {
  answer: string;
  title: string;
  send: Buffer;
  expected?: Expected | undefined;
  /** The request goes below this path, where all errors are nested. */
  base?: string;
};

type CaseOf = (title: string, send: Buffer, expected?: Expected) => Case;

const at =
  (answer: string): CaseOf =>
  (title, send, expected) => ({ answer, title, send, expected });
export const ok = at('200');
export const invalid = at('400 VALIDATION_ERROR');
export const noAuth = at('401 NO_AUTH');
export const invalidKey = at('401 INVALID_KEY');
export const keyExpired = at('401 KEY_EXPIRED');
export const invalidToken = at('401 INVALID_TOKEN');
export const forbidden = at('403 FORBIDDEN');
export const notFound = at('404 NOT_FOUND');
export const conflict = at('409 CONFLICT');
export const resultLost = at('409 IDEMPOTENCY_RESULT_LOST');
export const mismatch = at('422 IDEMPOTENCY_MISMATCH');
export const tooLarge = at('413 PAYLOAD_TOO_LARGE');
export const unsupported = at('415 UNSUPPORTED_MEDIA_TYPE');
export const spent = at('402 quota_exceeded');
export const limited = at('429 rate_limit_exceeded');

/** Refusals change nothing, so several are sent at once. */
export async function forEachCase(cases: readonly Case[], prove: (one: Case) => Promise<void>): Promise<void> {
  for (const one of cases.filter(({ answer }) => answer === '200')) await prove(one);
  const refused = cases.filter(({ answer }) => answer !== '200');
  for (let from = 0; from < refused.length; from += 8) await Promise.all(refused.slice(from, from + 8).map(prove));
}

/** Requires that the body has what is expected of it. */
export function assertExpected(t: ExecutionContext, { expected }: Pick<Case, 'expected'>, body: string, about: string) {
  if (expected === undefined) return;
  if (typeof expected === 'string') t.true(body.includes(expected), about);
  else if (expected instanceof RegExp) t.regex(body, expected, about);
  else if (typeof expected === 'function') expected(t, JSON.parse(body));
  else t.like(JSON.parse(body), expected, about);
}

export type Request = {
  bearer?: string | undefined;
  lines?: readonly string[];
  type?: string | undefined;
  body?: unknown;
};

export const json = 'Content-Type: application/json';

/**
 * The bytes of a request with this line, such as `GET /v1/models`. A body that is an object is sent as JSON. An empty `type` is not sent.
 */
export function requestTo(line: string, { bearer, lines = [], type = json, body }: Request): Buffer {
  const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : (JSON.stringify(body) ?? '');
  const ofBody = body === undefined ? [] : [type, `Content-Length: ${Buffer.byteLength(bytes)}`];
  const authorization = bearer === undefined ? [] : [`Authorization: Bearer ${bearer}`];
  const headers = [...authorization, ...lines, ...ofBody].filter((each) => each !== '');
  return Buffer.concat([Buffer.from(head(`${line} HTTP/1.1`, ...headers)), Buffer.from(bytes)]);
}

/** Requests with one credential, or with none. */
export const as =
  (bearer?: string) =>
  (line: string, body?: unknown, ...lines: string[]): Buffer =>
    requestTo(line, {
      bearer,
      body,
      lines,
      ...(lines.some((each) => each.startsWith('Content-Type:')) && { type: '' }),
    });

/** Invalid values by the beginning of their errors, which begin with the names of the fields. `send` sets these fields. */
export function fieldCases(
  send: (changed: object) => Buffer,
  wrong: Readonly<Record<string, readonly unknown[]>>,
): Case[] {
  return Object.entries(wrong).flatMap(([error, values]) => {
    const [field = ''] = error.split(/[.:[]/);
    return values.map((value) =>
      invalid(`${field}: ${JSON.stringify(value).slice(0, 30)}`, send({ [field]: value }), error),
    );
  });
}
