import { z } from 'zod';
import type { Stack } from '../stack/stack.ts';
import { createKeyClient } from '../support/key-client.ts';
import type { AskedRequest } from '../support/truth/ask.ts';
import { contradictionsIn, type Evidence } from '../support/truth/contradictions.ts';
import { chargedTo } from '../support/truth/open-books.ts';
import type { Witnesses } from '../support/truth/open-witnesses.ts';

const restWithinMs = 90_000;
const quotaSchema = z.object({ used: z.number(), reserved: z.number() });

type Deps = { stack: Stack; witnesses: Witnesses; asked: readonly AskedRequest[]; keys: readonly string[] };

/**
 * The lost requests, as messages: each that has no complete and correct answer, no usage record or several, or a charge that differs from
 * its backend's count. Also reports if the usage of all accounts is not the sum of their records. `keys` has one key of each account that
 * asked.
 */
export async function lostOf({ stack, witnesses, asked, keys }: Deps): Promise<string[]> {
  const evidence = await within(restWithinMs, witnesses.evidenceOf(asked));
  if (evidence === undefined) return [`requests or usage records are still in progress after ${restWithinMs} ms`];
  const own = ownOf(evidence);
  const unanswered = asked.filter(({ ending }) => ending !== 'answered' && ending !== 'refused');
  return [
    ...unanswered.map(({ ending, requestId }) => `${requestId ?? 'no request id'}: ${ending}`),
    ...contradictionsIn(own),
    ...(await unequalSums(stack, keys, chargedTo([...own.records.values()]))),
  ];
}

/** Without the attacker's requests. */
function ownOf({ asked, calls, events, records }: Evidence): Evidence {
  const ids = new Set(asked.map(({ requestId }) => requestId));
  return {
    asked,
    calls: calls.filter(({ requestId }) => ids.has(requestId)),
    events: events.filter(({ requestId }) => ids.has(requestId)),
    records: new Map([...records].filter(([requestId]) => ids.has(requestId))),
  };
}

async function unequalSums(stack: Stack, keys: readonly string[], charged: number): Promise<string[]> {
  const client = createKeyClient(stack);
  let used = 0;
  for (const bearer of keys) {
    const { body } = await client.send('GET', '/billing/quota', { bearer });
    const quota = quotaSchema.parse(body);
    if (quota.reserved !== 0) return [`${quota.reserved} tokens are still reserved`];
    used += quota.used;
  }
  return used === charged ? [] : [`the accounts used ${used} tokens, but their usage records have ${charged}`];
}

async function within<Value>(ms: number, value: Promise<Value>): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), ms);
  return Promise.race([value, late.promise]).finally(() => clearTimeout(timer));
}
