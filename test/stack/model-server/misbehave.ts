import type { ServerResponse } from 'node:http';
import { pour } from './derail.ts';
import type { ErrorForm } from './endpoint.ts';
import type { Fault } from './faults.ts';
import { sendError, sendJson } from './http.ts';
import { type Reply, type ReplyStart, streamHeaders, untilAborted, wait } from './reply.ts';

/** The number of pieces of slow headers. */
const slowPieces = 20;

/** Whether the fault replaces the answer. */
export function answersInstead(fault: Fault): boolean {
  const { hang, resetBeforeHeaders, closeBeforeHeaders, endlessHeaders, garbage, status } = fault;
  return Boolean(hang || resetBeforeHeaders || closeBeforeHeaders || endlessHeaders || garbage || status);
}

/** Does what the fault requires instead of an answer. */
export async function answerInstead({ res, calls, call, fault, signal, errors }: ReplyStart): Promise<void> {
  if (fault.hang) return untilAborted(signal);
  if (fault.endlessHeaders) return writeEndlessHeaders(res, signal);
  calls.change(call, { state: 'failed', status: fault.status });
  if (fault.resetBeforeHeaders) {
    res.socket?.resetAndDestroy();
  } else if (fault.closeBeforeHeaders) {
    res.socket?.end();
  } else if (fault.garbage !== undefined) {
    sendGarbage(res, fault.garbage, errors);
  } else if (fault.status !== undefined) {
    if (fault.retryAfterSeconds !== undefined) res.setHeader('retry-after', fault.retryAfterSeconds);
    if (fault.location !== undefined) res.setHeader('location', fault.location);
    const message = fault.errorMessage ?? `The model server answers ${fault.status}.`;
    sendError(res, fault.status, { message }, errors);
  }
}

function sendGarbage(res: ServerResponse, garbage: NonNullable<Fault['garbage']>, errors: ErrorForm): void {
  switch (garbage) {
    case 'http':
      res.socket?.end('\u0000\u0001 this is no HTTP \u0002\r\n\r\n');
      return;
    case 'json':
      res.writeHead(200, { 'content-type': 'application/json' }).end('<html>this is no JSON</html>');
      return;
    case 'html':
      res.writeHead(200, { 'content-type': 'text/html' }).end('<html>Please sign in.</html>');
      return;
    case 'error':
      sendJson(res, 200, errors.deadEngine('The engine is dead.'));
  }
}

async function writeEndlessHeaders(res: ServerResponse, signal: AbortSignal): Promise<void> {
  if (res.socket === null) return;
  res.socket.write('HTTP/1.1 200 OK\r\n');
  await pour(res.socket, `x-more: ${'and so on '.repeat(100)}\r\n`, signal);
}

/** Writes a reply of another length than its header says. Bypasses Node's writer, which would reject it. */
export function writeWrongLength({ res, calls, call, fault }: Reply, body: string): void {
  const types = call.stream ? streamHeaders : { 'content-type': 'application/json' };
  const length = Math.round(Buffer.byteLength(body) * (fault.lengthFactor ?? 1));
  const lines = Object.entries({ ...types, 'content-length': length }).map((pair) => pair.join(': '));
  calls.change(call, { state: 'failed' });
  res.socket?.end(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** Writes a reply whose header is sent in small pieces, bypassing Node's writer, and whose body ends with its connection. */
export async function writeSlowHeaders(reply: Reply, body: string): Promise<void> {
  const { res, calls, call, fault, signal, answered } = reply;
  const { completionTokens } = answered;
  const types = call.stream ? streamHeaders : { 'content-type': 'application/json' };
  const lines = [
    'HTTP/1.1 200 OK',
    ...Object.entries({ ...types, connection: 'close' }).map((pair) => pair.join(': ')),
  ];
  const header = `${lines.join('\r\n')}\r\n\r\n`;
  const size = Math.ceil(header.length / slowPieces);
  for (let at = 0; at < header.length; at += size) {
    res.socket?.write(header.slice(at, at + size));
    await wait((fault.slowHeadersMs ?? 0) / slowPieces, signal);
  }
  calls.change(call, { state: 'completed', chunksSent: 1, completionTokens });
  res.socket?.end(body);
}
