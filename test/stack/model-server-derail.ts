import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Call, CallList } from './model-server-calls.ts';

/** What can replace the rest of a reply. The endless ones continue until the client leaves. */
export const derailments = [
  'a closed connection',
  'an error event',
  'half an event',
  'invalid UTF-8',
  'a broken chunk',
  'an endless line',
  'endless comments',
  'endless roles',
] as const;

export type Derailment = (typeof derailments)[number];

/** A careless reader skips what it cannot read, and takes this as the end of the answer. */
const end = 'data: [DONE]\n\n';
const paceMs = 20;

/** `signal` aborts when the client leaves, and then the call rejects. */
type Begun = {
  res: ServerResponse;
  calls: CallList;
  call: Call;
  fault: { errorMessage?: string | undefined };
  signal: AbortSignal;
};

export async function derail({ res, calls, call, fault, signal }: Begun, into: Derailment): Promise<void> {
  switch (into) {
    case 'an endless line':
      res.write('data: {"choices":[{"index":0,"delta":{"content":"');
      return pour(res, 'and so on '.repeat(6_500), signal);
    case 'endless comments':
      return drip(res, ': still at it\n\n', signal);
    case 'endless roles':
      return drip(res, 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n', signal);
  }
  calls.change(call, { state: 'failed' });
  switch (into) {
    case 'a closed connection':
      res.socket?.end();
      return;
    case 'an error event':
      res.end(`data: ${JSON.stringify({ error: errorOf(fault.errorMessage) })}\n\n${end}`);
      return;
    case 'half an event':
      res.end(`data: {"choices":[{"index":0,"delta":{"content":"and\n\n${end}`);
      return;
    case 'invalid UTF-8':
      res.write('data: {"choices":[{"index":0,"delta":{"content":"');
      res.write(Buffer.from([0xff, 0xfe]));
      res.end(`"},"finish_reason":null}]}\n\n${end}`);
      return;
    case 'a broken chunk':
      res.socket?.end('this is no length of a chunk\r\n');
  }
}

function errorOf(message = 'The engine is dead.') {
  return { message, type: 'server_error', code: 500 };
}

/** Writes the same text endlessly, as fast as it is read. */
export async function pour(to: Writable, text: string, signal: AbortSignal): Promise<void> {
  const bytes = Buffer.from(text);
  while (!signal.aborted) {
    if (!to.write(bytes)) await once(to, 'drain', { signal });
    await nextTurn();
  }
}

async function drip(to: Writable, text: string, signal: AbortSignal): Promise<void> {
  while (true) {
    to.write(text);
    await sleep(paceMs, undefined, { signal });
  }
}
