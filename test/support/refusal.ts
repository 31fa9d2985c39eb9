import type { ExecutionContext } from 'ava';
import type { RunningIngress } from '../stack/stack.ts';
import { chat } from './chat.ts';
import { exchange, type RawAnswer } from './raw-http.ts';

export type Refusal = { status: number; code: string };

export const validation: Refusal = { status: 400, code: 'VALIDATION_ERROR' };
export const noAuth: Refusal = { status: 401, code: 'NO_AUTH' };
export const invalidKey: Refusal = { status: 401, code: 'INVALID_KEY' };
export const invalidToken: Refusal = { status: 401, code: 'INVALID_TOKEN' };
export const notFound: Refusal = { status: 404, code: 'NOT_FOUND' };
export const wrongMethod: Refusal = { status: 405, code: 'METHOD_NOT_ALLOWED' };
export const tooLarge: Refusal = { status: 413, code: 'PAYLOAD_TOO_LARGE' };
export const unsupported: Refusal = { status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' };
export const upgradeRequired: Refusal = { status: 426, code: 'UPGRADE_REQUIRED' };
export const headTooLarge: Refusal = { status: 431, code: 'HEADERS_TOO_LARGE' };

/** The head of a request with these lines, and a Host line unless there is one. */
export function head(requestLine: string, ...headers: string[]): string {
  const host = headers.some((line) => /^host *:/i.test(line)) ? [] : ['Host: x'];
  return [requestLine, ...host, ...headers, '', ''].join('\r\n');
}

export const requestId = /^req_[0-9A-HJKMNP-TV-Z]{26}$/;
const leaks = /koa|node|\.[jt]s\b|\bat .*:\d+|\/work|\/home|\/tmp|\/dev|stack|127\.0\.0\.1|redis|sqlite/i;

/** Requires flat JSON, {error, code} and nothing else, with a request id and without internal details. */
export function assertRefused(t: ExecutionContext, answer: RawAnswer, refusal: Refusal & { title: string }): void {
  const { status, code, title } = refusal;
  const { headers, body } = answer;
  const about = `${title}: ${answer.status} ${body}`;
  t.is(answer.status, status, about);
  t.is(headers['content-type'], 'application/json; charset=utf-8', about);
  t.regex(headers['x-request-id'] ?? '', requestId, about);
  t.deepEqual(Object.keys(JSON.parse(body)).sort(), ['code', 'error'], about);
  t.is(JSON.parse(body).code, code, about);
  assertDisclosesNothing(t, answer, title);
}

/** Requires properties of every response, refusal or not. */
export function assertDisclosesNothing(t: ExecutionContext, { headers, body }: RawAnswer, title: string): void {
  for (const name of ['server', 'x-powered-by']) t.false(name in headers, `${title}: ${name}`);
  t.is(headers['x-content-type-options'], 'nosniff', title);
  // The configuration names the address of the documentation, which is public.
  const { link: _, ...otherHeaders } = headers;
  // A key and a webhook's secret are random and can contain any of these words.
  t.notRegex(`${JSON.stringify(otherHeaders)} ${body}`.replace(/(svc_|whsec_)[\w+/=]+/g, '$1'), leaks, title);
}

export type Case = [title: string, send: string | Buffer, refusal: Refusal];

/** Sends each of these on its own connection. Each must get its expected refusal. */
export async function refuses(t: ExecutionContext, port: number, cases: readonly Case[]): Promise<RawAnswer[]> {
  const answers: RawAnswer[] = [];
  for (const [title, send, refusal] of cases) {
    const answer = await exchange({ port, send }).catch((error: Error) => t.fail(`${title}: ${error.message}`));
    if (typeof answer === 'boolean') continue;
    assertRefused(t, answer, { ...refusal, title });
    answers.push(answer);
  }
  return answers;
}

/** Requires that the same process still answers a request correctly, and logged no internal fault, after any input. */
export async function stillServes(t: ExecutionContext, ingress: RunningIngress | undefined, key: string) {
  if (ingress === undefined) return t.fail('there is no ingress');
  const { status, headers } = await chat({ url: ingress.url, key, question: 'Are you working?' });
  t.is(status, 200);
  await ingress.process.line(({ requestId }) => requestId === headers.get('x-request-id')); // and all earlier lines
  t.true(process.kill(ingress.process.pid, 0));
  t.deepEqual(
    ingress.process.logs.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
  );
}
