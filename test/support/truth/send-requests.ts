import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import type { RunningIngress } from '../../stack/stack.ts';
import { chatForm } from '../client-forms/choices-forms.ts';
import type { ClientForm } from '../client-forms/client-form.ts';
import type { Random } from '../random.ts';
import { type AskedRequest, ask } from './ask.ts';

type Load = {
  /** The ingresses that currently run. Each request uses one of them. */
  ingresses: readonly RunningIngress[];
  /** One key of each account. */
  keys: readonly string[];
  requests: number;
  clients: number;
  /** Default: those of the stack. */
  models?: readonly string[];
  /** Default: chat. */
  forms?: readonly ClientForm[];
  /** Aborted when the client of this question leaves. Undefined for one that waits. */
  leavingOf: (question: string) => AbortSignal | undefined;
  random: Random;
};

export type SentRequests = {
  asked: readonly AskedRequest[];
  /** Resolves as soon as this number of requests has ended. */
  reached(count: number): Promise<void>;
  done: Promise<void>;
};

/**
 * Clients of several accounts that send questions of all kinds one after another, complete and streamed. Some do not wait for the response.
 */
export function sendRequests(load: Load): SentRequests {
  const { ingresses, keys, requests, clients, leavingOf, random } = load;
  const { models = ['small-chat', 'medium-chat'], forms = [chatForm] } = load;
  const asked: AskedRequest[] = [];
  const waiting = new Set<{ count: number; resolve: () => void }>();
  const agent = new Agent({ connections: clients, headersTimeout: 0, bodyTimeout: 0 });
  let next = 0;

  function note(one: AskedRequest): void {
    asked.push(one);
    for (const each of waiting) {
      if (asked.length < each.count) continue;
      waiting.delete(each);
      each.resolve();
    }
  }

  async function client(): Promise<void> {
    for (let index = next++; index < requests; index = next++) {
      const times = random() < 0.15 ? 4 : 1;
      const isMistake = random() < 0.02;
      const stream = random() < 0.5;
      const question = `Question ${index}, repeat ${times}: 東京 ${'é'.repeat(index % 40)}?`;
      const wish = {
        url: random.oneOf(ingresses).url,
        key: random.oneOf(keys),
        question,
        stream,
        includeUsage: stream && random() < 0.7,
        model: isMistake ? 'no-such-model' : random.oneOf(models),
        form: random.oneOf(forms),
        leaving: leavingOf(question),
      };
      const answer = await ask(wish, agent);
      note(answer);
      // The wait that the response advertises. Otherwise all clients would use up their requests during the outage.
      if (answer.ending === 'refused' && answer.status === 503) await sleep(random.between(500, 1_000));
    }
  }

  const done = Promise.all(Array.from({ length: clients }, client)).then(() => agent.close());
  return {
    asked,
    reached: (count) => new Promise((resolve) => void waiting.add({ count, resolve })),
    done,
  };
}
