import { setTimeout as sleep } from 'node:timers/promises';
import { chat } from '../support/chat.ts';
import type { TrafficParts } from './traffic.ts';

const pauseMs = { from: 20, to: 80 };

/** One client that asks one question after another, and reads the answers or disconnects, as clients do. */
export async function askInTurn(parts: TrafficParts & { keyOf: () => string }): Promise<void> {
  const { stack, random, count, answered, attempt, signal, keyOf } = parts;

  async function ask(): Promise<void> {
    const url = random.oneOf(stack.ingresses).url;
    const asked = { url, question: `What is ${Math.floor(random() * 1_000)}?` };
    const chance = random();
    if (chance < 0.55) return read('whole', await chat({ ...asked, key: keyOf() }));
    if (chance < 0.8) return read('streamed', await chat({ ...asked, key: keyOf(), stream: true }));
    if (chance < 0.96) return leave(asked, chance < 0.88);
    if (chance < 0.98) return read('unknown key', await chat({ ...asked, key: `svc_${'x'.repeat(38)}` }));
    return read('bad body', await chat({ ...asked, key: keyOf(), fields: { temperature: 'hot' } }));
  }

  async function read(what: string, response: Response): Promise<void> {
    const text = await response.text();
    const isBroken = response.status === 200 && what === 'streamed' && !text.includes('[DONE]');
    // An interrupted stream must end with an error event. One that ends without any is a wrong answer.
    const ending = isBroken
      ? text.includes('UPSTREAM_INTERRUPTED')
        ? ' interrupted'
        : ' cut off without an error'
      : '';
    count(`${what}: ${response.status}${ending}`);
    if (response.status === 200 && !isBroken) answered(response.headers.get('x-request-id') ?? '');
  }

  /** Leaves in the middle of a stream, or while it waits. */
  async function leave(asked: { url: string; question: string }, stream: boolean): Promise<void> {
    const leaving = new AbortController();
    try {
      const response = await chat({ ...asked, key: keyOf(), stream, signal: leaving.signal });
      const reader = response.body?.getReader();
      await reader?.read();
      leaving.abort();
      await reader?.cancel();
    } catch {
      // The client closed the connection itself.
    }
    count(`${stream ? 'streamed' : 'whole'}: left`);
  }

  while (!signal.aborted) {
    await attempt('asking', ask);
    await sleep(random.between(pauseMs.from, pauseMs.to));
  }
}
