import type { Fault } from './model-server-faults.ts';
import { sendError } from './model-server-http.ts';
import { type Reply, streamHeaders, untilClosed, wait } from './model-server-reply.ts';

/** Into how many pieces slow headers are cut. */
const slowPieces = 20;

/** Whether the fault leaves no room for an answer. */
export function answersInstead(fault: Fault): boolean {
  return Boolean(fault.hang || fault.resetBeforeHeaders || fault.garbage || fault.status);
}

/** Does what the fault has in place of an answer. */
export async function answerInstead({ res, calls, call, fault, signal }: Reply): Promise<void> {
  if (fault.hang) return untilClosed(signal);
  calls.change(call, { state: 'failed' });
  if (fault.resetBeforeHeaders) {
    res.socket?.resetAndDestroy();
  } else if (fault.garbage === 'http') {
    res.socket?.end('\u0000\u0001 this is no HTTP \u0002\r\n\r\n');
  } else if (fault.garbage === 'json') {
    res.writeHead(200, { 'content-type': 'application/json' }).end('<html>this is no JSON</html>');
  } else if (fault.status !== undefined) {
    if (fault.retryAfterSeconds !== undefined) res.setHeader('retry-after', fault.retryAfterSeconds);
    sendError(res, fault.status, { message: fault.errorMessage ?? `The model server answers ${fault.status}.` });
  }
}

/** A reply whose header comes bit by bit, past Node's own writer, and whose body ends with its connection. */
export async function writeSlowHeaders(reply: Reply, body: string, completionTokens: number): Promise<void> {
  const { res, calls, call, fault, signal } = reply;
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
