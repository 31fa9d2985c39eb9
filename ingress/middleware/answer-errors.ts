import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError, errorBody, errorHeaders, errorStatus, toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/log.ts';
import type { AppContext, Stage } from '../request-state.ts';
import { nextRequestId } from './assign-request-id.ts';

/** How long a client may go on sending a body that was refused before its connection is cut. */
const lingerMs = 2_000;

/** The one place that turns a failure into an HTTP response, in the two shapes of specification section 7. */
export function answerErrors({ log, docsUrl }: { log: Log; docsUrl: string }): Stage {
  return async function answerErrors(ctx, next) {
    try {
      await next();
    } catch (thrown) {
      const error = toApiError(thrown);
      record(ctx, error);
      if (ctx.res.headersSent) {
        ctx.res.destroy();
        return;
      }
      ctx.remove('content-length');
      ctx.status = errorStatus(error.code);
      ctx.set(errorHeaders(error));
      ctx.body = errorBody(error, docsUrl);
      lingerOverUnreadBody(ctx);
    }
  };

  function record(ctx: AppContext, error: ApiError): void {
    const { requestId } = ctx.state;
    const fields = { requestId, code: error.code, err: error.cause };
    if (error.code === 'INTERNAL_ERROR') log.error(fields, 'a request failed by a fault of ours');
    else if (errorStatus(error.code) >= 500) log.warn(fields, error.message);
    else log.debug(fields, error.message);
  }
}

/**
 * A refused body may still be on its way. Closing at once would reset the connection, and the client would never read
 * the answer; so what comes is thrown away for a while, and only then is the connection cut.
 */
function lingerOverUnreadBody({ req, res }: AppContext): void {
  if (req.complete) return;
  req.resume();
  res.once('finish', () => {
    const timer = setTimeout(() => req.complete || req.socket.destroy(), lingerMs);
    req.once('close', () => clearTimeout(timer));
  });
}

const allMethods = 'GET, HEAD, POST, PATCH, DELETE, OPTIONS';
const wellFormedRequestLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP\/1\.[01]\r?\n/;

/** Answers what Node's HTTP parser refused and no stage ever sees: bytes that are not HTTP, headers too large or too slow. */
export function answerBrokenRequest({ log, docsUrl }: { log: Log; docsUrl: string }) {
  return function answerBrokenRequest(fault: ParserFault, socket: Duplex, response: ServerResponse | undefined): void {
    // After an answer has begun, anything written here would become part of it.
    if (socket.destroyed || !socket.writable || fault.code === 'ECONNRESET' || response?.headersSent) {
      socket.destroy();
      return;
    }
    const error = classify(fault);
    log.debug({ code: error.code, err: fault }, 'not a request this server can read');
    socket.end(rawResponse(error, docsUrl));
    setTimeout(() => socket.destroy(), lingerMs).unref();
  };
}

export type ParserFault = Error & { code?: string; rawPacket?: Buffer };

function classify({ code, rawPacket }: ParserFault): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new ApiError('HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB.');
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ApiError('REQUEST_TIMEOUT', 'The request did not arrive in time.');
  }
  if (code === 'HPE_INVALID_METHOD' && wellFormedRequestLine.test(rawPacket?.toString('latin1') ?? '')) {
    return new ApiError('METHOD_NOT_ALLOWED', 'This method is not known.', { headers: { Allow: allMethods } });
  }
  return new ApiError('VALIDATION_ERROR', 'request: expected HTTP/1.1');
}

function rawResponse(error: ApiError, docsUrl: string): string {
  const body = JSON.stringify(errorBody(error, docsUrl));
  const headers = {
    'x-request-id': nextRequestId(),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...errorHeaders(error),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${errorStatus(error.code)} ${error.code}`, ...lines, '', body].join('\r\n');
}
