import type { IncomingHttpHeaders } from 'node:http';
import { isIPv6 } from 'node:net';
import { errors } from 'undici';
import { chatErrorSchema } from '../../shared/chat-completion.ts';
import { BackendError } from './backend-error.ts';

/** The backend says that the request itself is at fault: another would say the same (API D9). */
const clientMistakes = new Set([400, 413, 422]);

/** A backend that wants to be left alone for longer is asked again after this. */
const retryAfterMsMax = 600_000;

const messageLengthMax = 500;
/** Of a longer message the rest is not even looked at. */
const messageLengthRead = 1_000;

type Refusal = { status: number; body: string; headers?: IncomingHttpHeaders; now?: number };

/** What a status other than 2xx means: the client's mistake with the backend's own words, or the backend's fault. */
export function classifyStatus({ status, body, headers = {}, now = Date.now() }: Refusal): BackendError {
  if (!clientMistakes.has(status)) {
    const retryAfterMs = readRetryAfter(headers, now);
    return new BackendError('status', `the backend answered ${status}`, { retryAfterMs });
  }
  return new BackendError('refused_request', messageOf(body) || 'The model server refused the request.');
}

/** What a failed call means: a `BackendError` stays what it is, anything else is told apart by undici's codes. */
export function classifyFailure(error: unknown): BackendError {
  if (error instanceof BackendError) return error;
  if (error instanceof errors.ConnectTimeoutError)
    return new BackendError('connect_timeout', 'no connection in time', { cause: error });
  if (error instanceof errors.HTTPParserError)
    return new BackendError('unreadable', 'the answer is not HTTP', { cause: error });
  if (error instanceof errors.ResponseContentLengthMismatchError) {
    return new BackendError('unreadable', 'the answer has another length than it announced', { cause: error });
  }
  return new BackendError('connection', 'the connection failed', { cause: error });
}

/** In seconds or as a date (RFC 9110 10.2.3), or in milliseconds as OpenAI has it. */
function readRetryAfter(headers: IncomingHttpHeaders, now: number): number | undefined {
  const milliseconds = Number(single(headers['retry-after-ms']) ?? Number.NaN);
  const text = single(headers['retry-after']) ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  const known = [milliseconds, waitMs].find((ms) => ms > 0);
  return known === undefined ? undefined : Math.min(known, retryAfterMsMax);
}

function single(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : header?.[0];
}

function messageOf(body: string): string | undefined {
  try {
    const parsed = chatErrorSchema.safeParse(JSON.parse(body));
    if (!parsed.success) return undefined;
    return withoutAddresses(parsed.data.slice(0, messageLengthRead)).slice(0, messageLengthMax).trim();
  } catch {
    return undefined;
  }
}

const address = '[address]';
const url = /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi;
const bracketed = /\[([^\]\s]{2,64})\](?::\d{1,5})?/g;
const colonsAndDigits = /(?<![\w:.])[0-9a-f:.]*:[0-9a-f:.]*[0-9a-f](?:%\w+)?(?!\w)/gi;
const ipv4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b/g;
const hostAndPort = /(?<![\w.-])(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:(?:80|443|\d{4,5})\b/gi;
/** Names that end as those of hosts do; any dotted word would be too many, for paths of fields have dots, too. */
const hostName =
  /(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan|localdomain|cluster|svc|corp|home|com|net|org|io|ai|dev|cloud)\b/gi;

/** A backend's message may name where it runs; that is nobody's business outside. Times and field paths stay as they are. */
export function withoutAddresses(message: string): string {
  return message
    .replace(url, address)
    .replace(bracketed, (text, inner: string) => (isIPv6(inner) ? address : text))
    .replace(colonsAndDigits, (text) => (/\d/.test(text) && isIPv6(text) ? address : text))
    .replace(ipv4, address)
    .replace(hostAndPort, address)
    .replace(hostName, address);
}
