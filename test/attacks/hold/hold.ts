import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { parse } from 'yaml';
import { type ModelServerOptions, writeEmbeddings } from '../../stack/model-server.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import type { Attack, Attacker, Preparation } from '../attack.ts';
import { repeat } from '../attacker/repeat.ts';
import {
  askedEmbeddings,
  everyAct,
  type Holder,
  mintDevice,
  openTools,
  slowModel,
  slowTokensPerSecond,
} from './holding.ts';

const { plans } = parse(readFileSync(new URL('../../stack/container-plans/plans.yaml', import.meta.url), 'utf8'));
const onPrem = ['onprem-a', 'onprem-b'];
/**
 * Redis with the memory of docker-compose.yml, the plans of its stand-ins, the usual limit of changed settings, and models that can be
 * asked for all that a caller can hold. The others' plan has room for what they ask.
 */
const stack = {
  env: { SETTINGS_WRITES_PER_MINUTE: '60' },
  webhooks: true,
  models: {
    'small-chat': { tier: 'guest', pool: 'default', backends: onPrem },
    everything: { ...everyEndpoint.everything, backends: onPrem },
    [slowModel]: { tier: 'guest', pool: 'default', backends: ['cloud'] },
  },
  plans: { 'shipped-free': plans.free, 'shipped-pro': plans.pro, 'guest-device': plans['guest-device'] },
};
const forMs = 40_000;
/** Twenty times what the plans allow. */
const perSecond = 100;
/** As many as one network may mint in an hour. */
const devices = 20;

/** Each act by its clients, all at the same time, as fast as they are answered. */
async function holdAll(attacker: Attacker, holders: readonly Holder[]): Promise<void> {
  const tools = await openTools(attacker);
  await Promise.all(
    everyAct.map(({ act, clients }) =>
      repeat(attacker, { clients, perSecond: perSecond / everyAct.length }, (_, index) => {
        const holder = holders[index % holders.length];
        return holder === undefined ? Promise.resolve() : act(tools, holder);
      }),
    ),
  );
}

const does = (who: string) =>
  `${who}, at all limits at once: requests, claims and their repeats, large and unread answers, fresh texts, large bodies, streams, whole answers and slow bodies that are left, keys, webhooks, files and batches; at most ${perSecond} of these a second`;

/** Model servers have their own processors. Here they share them with the service, so that they write large answers before. */
async function prepare(): Promise<Preparation> {
  for (const body of askedEmbeddings) writeEmbeddings(body);
  const workerData: ModelServerOptions = { name: 'slow', tokensPerSecond: slowTokensPerSecond };
  const slow = new Worker(new URL('slow-model-server.ts', import.meta.url), { workerData });
  const [url] = await once(slow, 'message');
  return {
    stack: { ...stack, backends: { cloud: { url } } },
    [Symbol.asyncDispose]: async () => void (await slow.terminate()),
  };
}

const judged = { forMs, prepare, judgedBy: 'p99', redisMiBMax: 512 } as const;

function holdAccount(id: string, plan: 'free' | 'pro'): Attack {
  return {
    ...{ id, name: `hold-${plan}`, does: does(`one account of the plan ${plan}`), ...judged },
    ...{ accounts: 1, plan: `shipped-${plan}` },
    run: (attacker) => holdAll(attacker, accountsOf(attacker)),
  };
}

export const holdFree = holdAccount('14a', 'free');
export const holdPro = holdAccount('14b', 'pro');

export const holdGuests: Attack = {
  ...{ id: '14c', name: 'hold-guests', does: does(`${devices} devices of one network`), ...judged },
  run: async (attacker) => holdAll(attacker, await mintDevices(attacker)),
};

/** For a short test of all of them. */
export const holdTogether: Attack = {
  ...{ id: '14d', name: 'hold-together', does: does(`an account and ${devices} devices of one network`), ...judged },
  accounts: 1,
  plan: 'shipped-free',
  async run(attacker) {
    const guests = await mintDevices(attacker);
    await Promise.all([holdAll(attacker, accountsOf(attacker)), holdAll(attacker, guests)]);
  },
};

function accountsOf({ target: { keys, tokens } }: Attacker): Holder[] {
  return keys.map((key, index) => ({ key, token: tokens[index] }));
}

async function mintDevices(attacker: Attacker): Promise<Holder[]> {
  const tools = await openTools(attacker);
  const minted: Holder[] = [];
  for (let device = 0; device < devices; device += 1) {
    const key = await mintDevice(tools, device);
    if (key !== undefined) minted.push({ key });
  }
  return minted;
}
