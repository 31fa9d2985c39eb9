import { type ServerResponse, STATUS_CODES } from 'node:http';
import { type Duplex, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { within } from '../../shared/concurrency/shutdown.ts';
import { ApiError, errorBody, errorHeaders, errorLink, errorStatus, toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { ParserError } from '../listener/listener.ts';
import type { AppContext, Stage } from '../request-state.ts';
import { nextRequestId } from './request-head.ts';
import type { SecurityHeaders } from './security-headers.ts';

/** How long a client may continue to send a refused body before its connection is closed. */
const usualLingerMs = 2_000;

/**
 * Converts every failure to an HTTP response, in the format that was chosen for its path, or else in one of the two usual ones
 * (contract.md#b1-two-shapes). Nothing else writes errors to HTTP.
 */
export function answerErrors({
  log,
  docsUrl,
  lingerMs = usualLingerMs,
}: {
  log: Log;
  docsUrl: string;
  lingerMs?: number;
}): Stage {
  return async function answerErrors(ctx, next) {
    try {
      await next();
    } catch (thrown) {
      const error = toApiError(thrown);
      ctx.state.errorCode = error.code;
      record(ctx, error);
      if (ctx.res.headersSent) {
        ctx.res.destroy();
        return;
      }
      ctx.remove('content-length');
      ctx.status = errorStatus(error.code);
      ctx.set({ ...errorHeaders(error), link: errorLink(error, docsUrl) });
      const { requestId, errorFormat } = ctx.state;
      ctx.body = errorFormat?.body(error, { docsUrl, requestId }) ?? errorBody(error, docsUrl);
      if (!ctx.req.complete && ctx.state.isBodyWhole !== true) lingerOverUnreadBody(ctx, lingerMs);
    }
  };

  function record(ctx: AppContext, error: ApiError): void {
    const { requestId } = ctx.state;
    const fields = { requestId, code: error.code, err: error.cause };
    if (error.code === 'INTERNAL_ERROR') log.error(fields, 'a request failed with an internal error');
    else if (errorStatus(error.code) >= 500) log.warn(fields, error.message);
    else log.debug(fields, error.message);
  }
}

/**
 * Keeps the response open for a short time after it is written, and discards the rest of the refused body. An immediate close would reset
 * the connection, and a client that still sends would never read the response.
 */
function lingerOverUnreadBody(ctx: AppContext, lingerMs: number): void {
  const { req, res } = ctx;
  const answer = JSON.stringify(ctx.body);
  async function* answerThenLinger() {
    yield answer;
    await within(
      lingerMs,
      finished(req.resume()).catch(() => {}),
    );
  }
  ctx.body = Readable.from(answerThenLinger());
  ctx.type = 'application/json; charset=utf-8';
  ctx.length = Buffer.byteLength(answer);
  res.once('finish', () => req.complete || req.socket.destroy());
}

const wellFormedRequestLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP\/1\.[01]\r?\n/;

type BrokenRequestDeps = {
  log: Log;
  docsUrl: string;
  securityHeaders: SecurityHeaders;
  /** Those of all routes, for a method that no route has. */
  methods: readonly string[];
};

/**
 * Answers what Node's HTTP parser refuses before any stage: bytes that are not HTTP, headers that are too large or too slow. Earlier
 * requests of the connection are still answered, and the last of them closes it.
 */
export function answerBrokenRequest({ log, docsUrl, securityHeaders, methods }: BrokenRequestDeps) {
  const allow = [...methods, 'OPTIONS'].join(', ');

  return function answerBrokenRequest(parserError: ParserError, socket: Duplex, owed: readonly ServerResponse[]): void {
    // Further bytes after a refusal are refused again and again. A close now would keep the client from reading the first refusal.
    if (socket.writableEnded) return;
    if (!socket.writable || parserError.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    // The response must not become a part of a response that has begun, nor look like the response to an earlier request.
    const [current, another] = owed;
    const mayAnswer = current === undefined || (another === undefined && !current.headersSent && !current.req.complete);
    if (!mayAnswer) {
      owed.at(-1)?.once('close', () => socket.destroy());
      return;
    }
    const error = classify(parserError, allow);
    // Not the parser's error itself: it contains the received bytes, and they may contain a key.
    log.debug({ code: error.code, fault: parserError.code }, 'a request could not be parsed');
    socket.end(rawResponse(error, docsUrl, securityHeaders));
    setTimeout(() => socket.destroy(), usualLingerMs).unref();
  };
}

function classify({ code, rawPacket }: ParserError, allow: string): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new ApiError('HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB, or too many.');
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiError('REQUEST_TIMEOUT', 'The request did not arrive in time.');
  }
  if (code === 'HPE_INVALID_METHOD' && wellFormedRequestLine.test(rawPacket?.toString('latin1') ?? '')) {
    return new ApiError('METHOD_NOT_ALLOWED', 'This method is unknown.', { headers: { Allow: allow } });
  }
  const message = code === 'HPE_INVALID_EOF_STATE' ? 'ended before it was complete' : 'expected HTTP/1.1';
  return new ApiError('VALIDATION_ERROR', `request: ${message}`);
}

function rawResponse(error: ApiError, docsUrl: string, securityHeaders: SecurityHeaders): string {
  const body = JSON.stringify(errorBody(error, docsUrl));
  const headers = {
    ...securityHeaders,
    'x-request-id': nextRequestId(),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...errorHeaders(error),
    link: errorLink(error, docsUrl),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const status = errorStatus(error.code);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n');
}
