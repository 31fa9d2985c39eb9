import { isDeepStrictEqual } from 'node:util';
import type { ExecutionContext } from 'ava';
import fc from 'fast-check';
import {
  changeKey,
  createKey,
  mintGuestKey,
  mintKey,
  type NamedKey,
  revokeKey,
  rotateKey,
} from '../../../ingress/authentication/change-keys.ts';
import { changeSettings, type Settings } from '../../../shared/account-changes/change-settings.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import type { KeyUse } from '../../../shared/store/records/account-store.ts';
import {
  isDefaultKey,
  isLive,
  type Key,
  type KeyFields,
  type NewKey,
  scopeOf,
} from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { sized } from '../../support/size.ts';
import { type Contract, provesOnStore } from './store-contract.ts';

/** `key` selects one of all keys that this sequence has offered, in any state and of any account. */
type Command =
  | { does: 'mint' | 'mint guest'; account: string; plan: string; inUse: boolean }
  | { does: 'rotate' | 'revoke'; account: string; key: number; by: 'hash' | 'display' }
  | ({ does: 'set'; account: string } & Settings)
  | { does: 'use'; account: string; key: number; at: number }
  | { does: 'create'; account: string; plan: string; fields: KeyFields }
  | { does: 'change'; account: string; key: number; fields: Partial<KeyFields> }
  | { does: 'rotate by id'; account: string; key: number; graceMs: number }
  | { does: 'revoke by id'; account: string; key: number };

const unavailable = 'SERVICE_UNAVAILABLE';
/** Fails if more sequences are given up than are compared. */
const atMostHalf = { numRuns: 20, maxSkipsPerRun: 1 };

const account = fc.constantFrom('ann', 'bob', 'device');
const plan = fc.constantFrom('free', 'pro');
const key = fc.nat(20);

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ does: fc.constantFrom('mint', 'mint guest'), account, plan, inUse: fc.boolean() }),
  fc.record({ does: fc.constantFrom('rotate', 'revoke'), account, key, by: fc.constantFrom('hash', 'display') }),
  fc.record({ does: fc.constant('set'), account, ...settings() }),
  fc.record({ does: fc.constant('use'), account, key, at: fc.nat(1_000) }),
  fc.record({ does: fc.constant('create'), account, plan, fields: keyFields() }),
  fc.record({ does: fc.constant('change'), account, key, fields: keyChanges() }),
  fc.record({ does: fc.constant('rotate by id'), account, key, graceMs: fc.nat(10) }),
  fc.record({ does: fc.constant('revoke by id'), account, key }),
);

/** For any sequence of commands, a store ends with the same accounts as the pure decisions. */
export function testModelContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('any sequence of changes leaves the accounts as the decisions alone would', followsDecisions);
}

async function followsDecisions(t: ExecutionContext, store: Store): Promise<void> {
  const seen = { sequences: 0, steps: 0, refusals: new Map<string, number>() };
  const atOnce = fc.array(command, { minLength: 1, maxLength: 3 });
  const commands = fc.array(atOnce, { minLength: 1, maxLength: 40, size: 'max' });
  const property = fc.asyncProperty(commands, async (sequence) => {
    seen.sequences += 1;
    try {
      await runBoth(t, sequence, { store, prefix: `user:${seen.sequences}:`, refusals: seen.refusals });
    } catch (error) {
      // A store that was too busy may have made the change or not, so this sequence proves nothing.
      if (!(error instanceof ApiError) || error.code !== unavailable) throw error;
      t.log(`a sequence is given up: ${error.message}`);
      fc.pre(false);
    }
    seen.steps += sequence.flat().length;
  });
  // A comparison without one of the refusals proves nothing about it.
  while (seen.steps < sized(1_000, 4_000) || seen.refusals.size < 3) await fc.assert(property, atMostHalf);
  t.log(`${seen.steps} steps; ${[...seen.refusals].map(([message, count]) => `${count}: ${message}`).join(' ')}`);
}

type Offered = { keys: NewKey[]; store: Store; prefix: string; refusals: Map<string, number> };

async function runBoth(
  t: ExecutionContext,
  sequence: readonly (readonly Command[])[],
  { store, prefix, refusals }: Omit<Offered, 'keys'>,
): Promise<void> {
  const model = new Map<string, Account>();
  const keys: NewKey[] = [];
  const pick = (each: Command) => ('key' in each ? keys[each.key % Math.max(1, keys.length)] : undefined);
  for (const atOnce of sequence) {
    const id = prefix + (atOnce[0]?.account ?? '');
    const changes: Decide<Account, unknown>[] = [];
    for (const each of atOnce) {
      const picked = pick(each);
      if (each.does === 'use') {
        const use = { account: id, keyId: picked?.id ?? 'key_unknown', at: new Date(each.at) };
        await store.accounts.recordKeyUse([use]);
        noteUse(model, use);
        continue;
      }
      const offered = numberedKey(prefix, keys.length);
      keys.push(offered);
      changes.push(toDecision(each, { id, offered, picked }));
    }
    const results = await Promise.all(changes.map((decide) => settled(() => store.accounts.changeAccount(id, decide))));
    for (const result of results) if (typeof result === 'string') refusals.set(result, (refusals.get(result) ?? 0) + 1);
    const now = await store.accounts.findAccount(id);
    const orders = await Promise.all(inAnyOrder(changes).map((order) => decideAlone(model.get(id), changes, order)));
    const made = { account: now, results };
    const found = orders.find((order) => isDeepStrictEqual(order, made));
    t.deepEqual(found ?? orders[0], made, 'the changes were made one after the other, in some order');
    if (found?.account !== undefined) model.set(id, found.account);
  }

  for (const name of ['ann', 'bob', 'device']) {
    t.deepEqual(await store.accounts.findAccount(prefix + name), model.get(prefix + name));
  }
  for (const { hash } of keys) {
    const found = await store.accounts.findKeyOwner([hash]);
    const owner = [...model.values()].find(({ keys }) => keys.some((each) => each.hash === hash));
    t.is(found?.account, owner?.id);
    const key = owner?.keys.find((each) => each.hash === hash);
    t.is(found?.keyId, key?.id);
    t.deepEqual(found?.keyScope, key && !isDefaultKey(key) ? scopeOf(key) : undefined);
  }
}

/** What the changes would leave, and their results in their own order, if they were made alone in this order. */
async function decideAlone(
  before: Account | undefined,
  changes: readonly Decide<Account, unknown>[],
  order: readonly number[],
) {
  let account = before;
  const results: unknown[] = [];
  for (const index of order) {
    results[index] = await settled(async () => {
      const { result, next } = changes[index]?.(account) ?? {};
      account = next ?? account;
      return result;
    });
  }
  return { account, results };
}

/** The message of a change that its key does not allow, otherwise the result. */
async function settled(change: () => Promise<unknown>): Promise<unknown> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof ApiError && error.code !== unavailable) return error.message;
    throw error;
  }
}

function inAnyOrder(items: readonly unknown[], from: readonly number[] = [...items.keys()]): number[][] {
  if (from.length === 0) return [[]];
  return from.flatMap((first) =>
    inAnyOrder(
      items,
      from.filter((each) => each !== first),
    ).map((rest) => [first, ...rest]),
  );
}

type Keys = { id: string; offered: NewKey; picked: NewKey | undefined };

function toDecision(
  command: Exclude<Command, { does: 'use' }>,
  { id, offered, picked }: Keys,
): Decide<Account, unknown> {
  const at = offered.createdAt;
  switch (command.does) {
    case 'mint':
      return mintKey({ account: id, plan: command.plan, key: offered });
    case 'mint guest': {
      const guest = { secret: command.plan, pepper: 'p' };
      return mintGuestKey({ account: id, plan: command.plan, key: offered, guest }, () => command.inUse);
    }
    case 'rotate':
      return rotateKey({ named: nameOf(picked, command.by), key: offered });
    case 'revoke':
      return revokeKey({ named: nameOf(picked, command.by), at });
    case 'create':
      return createKey({ account: id, plan: command.plan, key: offered, fields: command.fields });
    case 'change':
      return changeKey({ id: picked?.id ?? 'key_unknown', fields: command.fields, at });
    case 'rotate by id':
      return rotateKey({ named: { id: picked?.id ?? 'key_unknown' }, key: offered, graceMs: command.graceMs });
    case 'revoke by id':
      return revokeKey({ named: { id: picked?.id ?? 'key_unknown' }, at });
    case 'set':
      return changeSettings({ settings: command, at, by: 'user:operator' });
  }
}

function nameOf(picked: NewKey | undefined, by: 'hash' | 'display'): NamedKey {
  if (by === 'display') return { display: picked?.display ?? 'svc_unknow' };
  return { hashes: ['under another pepper', picked?.hash ?? 'unknown'] };
}

function noteUse(model: Map<string, Account>, { account: id, keyId, at }: KeyUse): void {
  const known = model.get(id);
  if (known === undefined) return;
  const isNews = (key: Key) => key.id === keyId && isLive(key) && (key.lastUsedAt ?? -1) < at;
  const keys = known.keys.map((key) => (isNews(key) ? { ...key, lastUsedAt: at } : key));
  model.set(id, { ...known, keys });
}

function numberedKey(prefix: string, number: number): NewKey {
  const name = `${prefix}${number}`;
  return { id: `key_${name}`, hash: `hash of ${name}`, display: `svc_${number}`, createdAt: new Date(number) };
}

/** Each id has its own number of tokens, so that a repeat is never a conflict. */
function settings() {
  const topUp = fc.constantFrom(1, 2, 3).map((tokens) => ({ id: `top-up ${tokens}`, tokens }));
  return {
    plan: maybe(plan),
    overageEnabled: maybe(fc.boolean()),
    topUp: maybe(topUp),
    suspended: maybe(fc.boolean()),
  };
}

function maybe<Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> {
  return fc.option(value, { nil: undefined });
}

/** Keys are numbered from 0, and made at the millisecond of their number: some of these ends come within a sequence. */
function keyFields(): fc.Arbitrary<KeyFields> {
  return fc
    .record({ name: fc.constantFrom('one', 'two') })
    .chain(({ name }) => keyChanges().map((fields) => definedOf({ ...fields, name })));
}

function keyChanges(): fc.Arbitrary<Partial<KeyFields>> {
  return fc.record(
    {
      name: fc.constantFrom('three', 'four'),
      expiresAt: maybe(fc.nat(60).map((at) => new Date(at))),
      endpoints: maybe(fc.constant(['/v1/embeddings'])),
      models: maybe(fc.constantFrom(['small-chat'], ['small-chat', 'large-chat'])),
      allowedIps: maybe(fc.constant(['192.0.2.0/24'])),
      limits: maybe(fc.constantFrom({ requestsPerMinute: 1 }, { tokensPerMonth: 2, tokensPerMinute: 3 })),
      files: maybe(fc.constantFrom('none', 'own', 'read', 'all')),
    },
    { requiredKeys: [] },
  );
}

function definedOf(fields: KeyFields): KeyFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as KeyFields;
}
