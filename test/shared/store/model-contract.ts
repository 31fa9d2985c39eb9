import type { ExecutionContext } from 'ava';
import fc from 'fast-check';
import {
  changeSettings,
  mintGuestKey,
  mintKey,
  type NamedKey,
  revokeKey,
  rotateKey,
  type Settings,
} from '../../../ingress/callers/account-changes.ts';
import type { Account, NewKey } from '../../../shared/store/accounts/account.ts';
import type { Decide } from '../../../shared/store/accounts/decide.ts';
import type { KeyUse, Store } from '../../../shared/store/store.ts';
import { type Contract, provesOnStore } from './store-contract.ts';

/** `key` selects one of all keys that this sequence has offered, in any state and of any account. */
type Command =
  | { does: 'mint' | 'mint guest'; account: string; plan: string; inUse: boolean }
  | { does: 'rotate' | 'revoke'; account: string; key: number; by: 'hash' | 'display' }
  | ({ does: 'set'; account: string } & Settings)
  | { does: 'use'; account: string; key: number; at: number };

const account = fc.constantFrom('ann', 'bob', 'device');
const plan = fc.constantFrom('free', 'pro');
const key = fc.nat(20);

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ does: fc.constantFrom('mint', 'mint guest'), account, plan, inUse: fc.boolean() }),
  fc.record({ does: fc.constantFrom('rotate', 'revoke'), account, key, by: fc.constantFrom('hash', 'display') }),
  fc.record({ does: fc.constant('set'), account, ...settings() }),
  fc.record({ does: fc.constant('use'), account, key, at: fc.nat(1_000) }),
);

/** For any sequence of commands, a store ends with the same accounts as the pure decisions. */
export function testModelContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('any sequence of changes leaves the accounts as the decisions alone would', followsDecisions);
}

async function followsDecisions(t: ExecutionContext, store: Store): Promise<void> {
  let sequences = 0;
  const commands = fc.array(command, { minLength: 1, maxLength: 30 });
  const property = fc.asyncProperty(commands, async (sequence) => {
    sequences += 1;
    await runBoth(t, sequence, { store, prefix: `user:${sequences}:` });
  });
  await fc.assert(property, { numRuns: 60 });
}

async function runBoth(
  t: ExecutionContext,
  commands: readonly Command[],
  { store, prefix }: { store: Store; prefix: string },
): Promise<void> {
  const model = new Map<string, Account>();
  const keys: NewKey[] = [];
  for (const each of commands) {
    const id = prefix + each.account;
    const picked = 'key' in each ? keys[each.key % Math.max(1, keys.length)] : undefined;
    if (each.does === 'use') {
      const use = { account: id, keyId: picked?.id ?? 'key_unknown', at: new Date(each.at) };
      await store.recordKeyUse([use]);
      noteUse(model, use);
      continue;
    }
    const offered = numberedKey(prefix, keys.length);
    keys.push(offered);
    const decide = toDecision(each, { id, offered, picked });
    const { result, next } = decide(model.get(id));
    if (next !== undefined) model.set(id, next);
    t.deepEqual(await store.changeAccount(id, decide), result);
  }

  for (const name of ['ann', 'bob', 'device']) {
    t.deepEqual(await store.findAccount(prefix + name), model.get(prefix + name));
  }
  for (const { hash } of keys) {
    const owner = [...model.values()].find((each) => each.key?.hash === hash);
    t.is((await store.findKeyOwner([hash]))?.account, owner?.id);
  }
}

type Keys = { id: string; offered: NewKey; picked: NewKey | undefined };

function toDecision(command: Exclude<Command, { does: 'use' }>, { id, offered, picked }: Keys): Decide<unknown> {
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
  if (known?.key?.id !== keyId) return;
  if (known.lastUse?.keyId === keyId && known.lastUse.at >= at) return;
  model.set(id, { ...known, lastUse: { keyId, at } });
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
