import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Call, CallList } from './calls.ts';
import { type ModelAnswer, textOf } from './endpoint.ts';

/** What can replace the rest of a reply. The endless ones continue until the client leaves. */
export const derailments = [
  'a closed connection',
  'an error event',
  'a failed event',
  'an abort',
  'half an event',
  'invalid UTF-8',
  'a broken chunk',
  'an endless line',
  'endless comments',
  'endless roles',
] as const;

export type Derailment = (typeof derailments)[number];

const paceMs = 20;

/** `signal` aborts when the client leaves, and then the call rejects. */
type Begun = {
  res: ServerResponse;
  calls: CallList;
  call: Call;
  fault: { errorMessage?: string | undefined };
  signal: AbortSignal;
  answered: ModelAnswer;
};

/** Replaces the rest of a reply, of which `sent` events were sent. */
export async function derail(
  { res, calls, call, fault, signal, answered }: Begun,
  into: Derailment,
  sent: number,
): Promise<void> {
  const { form } = answered;
  const upToText = textOf(form.eventUpToText, sent);
  switch (into) {
    case 'an endless line':
      res.write(upToText);
      return pour(res, 'and so on '.repeat(6_500), signal);
    case 'endless comments':
      return drip(() => res.write(': still at it\n\n'), signal);
    case 'endless roles': {
      let written = sent;
      return drip(() => res.write(textOf(form.emptyEvent, written++)), signal);
    }
  }
  calls.change(call, { state: 'failed' });
  const { errorMessage = 'The engine is dead.' } = fault;
  const end = textOf(form.end, sent + 1);
  switch (into) {
    case 'a closed connection':
      res.socket?.end();
      return;
    case 'an error event':
      res.end(`${textOf(form.errorEvent(errorMessage), sent)}${end}`);
      return;
    case 'a failed event':
      res.end(textOf((form.failedEvent ?? form.errorEvent)(errorMessage), sent));
      return;
    case 'an abort':
      res.end(abortOf(form, sent) ?? end);
      return;
    case 'half an event':
      res.end(`${upToText}and\n\n${end}`);
      return;
    case 'invalid UTF-8':
      res.write(upToText);
      res.write(Buffer.from([0xff, 0xfe]));
      res.end(`${form.eventAfterText}${end}`);
      return;
    case 'a broken chunk':
      res.socket?.end('this is no length of a chunk\r\n');
  }
}

/**
 * The end of a stream whose server was stopped: vLLM says `finish_reason: "abort"`, and then what ends a complete stream. Undefined if the
 * format has nothing before that.
 */
function abortOf(form: ModelAnswer['form'], sent: number): string | undefined {
  if (form.failedEvent !== undefined) return textOf(form.failedEvent('The engine was stopped.'), sent);
  const open = textOf(form.emptyEvent, sent);
  const aborted = open.replace('"finish_reason":null', '"finish_reason":"abort"');
  return aborted === open ? undefined : aborted + textOf(form.end, sent + 1);
}

/** Writes the same text endlessly, as fast as it is read. */
export async function pour(to: Writable, text: string, signal: AbortSignal): Promise<void> {
  const bytes = Buffer.from(text);
  while (!signal.aborted) {
    if (!to.write(bytes)) await once(to, 'drain', { signal });
    await nextTurn();
  }
}

async function drip(write: () => void, signal: AbortSignal): Promise<void> {
  while (true) {
    write();
    await sleep(paceMs, undefined, { signal });
  }
}
